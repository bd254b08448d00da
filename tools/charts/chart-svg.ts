/**
 * Draws charts for light and dark pages: without a background, with colours that follow the
 * reader's scheme. Ours is blue; peers are grey as bars and have colours of their own as lines.
 */

import { barShapes } from './bars.ts'
import type { Chart } from './chart.ts'
import { lineShapes } from './lines.ts'
import { svg, text } from './svg.ts'

/** The top of the drawing, below the title. */
const TOP = 72

export function chartSvg(chart: Chart): string {
  const { height, shapes } = chart.kind === 'bars' ? barShapes(chart, TOP) : lineShapes(chart, TOP)
  const about = chart.kind === 'bars' ? chart.yLabel : `${chart.yLabel}, by ${chart.xLabel}`
  return svg(height, chart.title, about, [
    STYLE,
    text(16, 28, chart.title, { size: 18, weight: 600, fill: { class: 'ink' } }),
    text(16, 50, about, { fill: { class: 'quiet' } }),
    ...shapes,
  ])
}

const light = {
  ink: '#1f2328',
  quiet: '#59636e',
  grid: '#d1d9e0',
  ours: '#0969da',
  peer: '#afb8c1',
  lines: ['#bc4c00', '#1a7f37', '#8250df', '#6e7781'],
}

const dark = {
  ink: '#f0f6fc',
  quiet: '#9198a1',
  grid: '#3d444d',
  ours: '#4493f8',
  peer: '#656c76',
  lines: ['#f0883e', '#3fb950', '#ab7df8', '#9198a1'],
}

const STYLE = [
  '<style>',
  rules(light),
  `@media (prefers-color-scheme: dark) {\n${rules(dark)}\n}`,
  '</style>',
].join('\n')

function rules({ ink, quiet, grid, ours, peer, lines }: typeof light): string {
  return [
    `.ink { fill: ${ink} } .quiet { fill: ${quiet} } .grid { stroke: ${grid} }`,
    `.ours { fill: ${ours} } .peer { fill: ${peer} } .ours-line { stroke: ${ours}; fill: none }`,
    ...lines.map(
      (color, at) => `.dot-${at} { fill: ${color} } .line-${at} { stroke: ${color}; fill: none }`,
    ),
  ].join('\n')
}
