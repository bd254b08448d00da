/** Charts: well-formed, within their width, and the same for the same data. */

import { describe, expect, test } from 'vitest'
import type { Chart } from '../../tools/charts/chart.ts'
import { chartSvg } from '../../tools/charts/chart-svg.ts'
import { complaintsAboutXml } from './xml.ts'

const bars: Chart = {
  name: 'bars',
  title: 'Bars & <more>',
  kind: 'bars',
  xLabel: 'situation',
  yLabel: 'per second',
  series: [
    { name: 'Tidegate', isOurs: true, points: [point('a < b', 2_000_000), point('c', 4)] },
    { name: "a peer's & co", isOurs: false, points: [point('a < b', 1_000_000)] },
  ],
}

const lines: Chart = {
  name: 'lines',
  title: 'Lines',
  kind: 'lines',
  xLabel: 'in flight',
  yLabel: 'per second',
  isLogX: true,
  isLogY: true,
  series: [
    { name: 'Tidegate', isOurs: true, points: [point(1, 10), point(8, 100), point(256, 90_000)] },
    { name: 'a peer', isOurs: false, points: [point(1, 12), point(8, 90), point(256, 80_000)] },
    { name: 'nothing', isOurs: false, points: [point(1, 0), point(256, 0)] },
  ],
}

const charts = [bars, lines, { ...bars, isLogY: true }, { ...lines, isLogX: false, isLogY: false }]

describe.for(charts)('a chart of $kind', (chart) => {
  const text = chartSvg(chart)

  test('is well-formed XML', () => {
    expect(complaintsAboutXml(text)).toEqual([])
  })

  test('has only places that are numbers within its size', () => {
    const places = Array.from(text.matchAll(/ (?:x|cx)="([^"]*)"/g), ([, x]) => Number(x))
    expect(places.length).toBeGreaterThan(3)
    expect(places.filter((x) => !(x >= 0 && x <= 860))).toEqual([])
    expect(text).not.toMatch(/NaN|Infinity|undefined/)
  })

  test('follows the colours of the page', () => {
    expect(text).toContain('@media (prefers-color-scheme: dark)')
    expect(text).not.toMatch(/fill="#/)
  })
})

test('a bar has its figure at its end, and ours is highlighted', () => {
  const text = chartSvg(bars)
  expect(text).toContain('>2,000,000</text>')
  expect(text.match(/<rect [^>]*class="ours"/g)).toHaveLength(2)
  expect(text.match(/<rect [^>]*class="peer"/g)).toHaveLength(1)
})

test('a bar of half the value has half the length', () => {
  const widths = Array.from(chartSvg(bars).matchAll(/<rect .*?width="([\d.]+)"/g), ([, width]) =>
    Number(width),
  )
  expect(widths[1]).toBeCloseTo((widths[0] ?? 0) / 2, 0)
})

function point(x: number | string, y: number) {
  return { x, y }
}
