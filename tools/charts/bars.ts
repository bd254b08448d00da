/** Horizontal bars, grouped if a category has several, each with its figure at the end. */

import type { Chart, Shapes } from './chart.ts'
import { rough } from './number-text.ts'
import { scaleOf, widthOf } from './scale.ts'
import { rectangle, text, WIDTH } from './svg.ts'

interface Bar {
  readonly label: string
  readonly isOurs: boolean
  readonly value: number
}

interface Group {
  /** Undefined if the labels of the bars are enough. */
  readonly heading: string | undefined
  readonly bars: readonly Bar[]
}

const MARGIN = 16
const BAR_HEIGHT = 18
const BAR_STEP = 24
const HEADING_HEIGHT = 24
const GROUP_GAP = 12
const LABEL_WIDTH_MAX = 330

/** Room for the figure beside the longest bar. */
const FIGURE_WIDTH = 92

export function barShapes(chart: Chart, top: number): Shapes {
  const groups = groupsOf(chart)
  const bars = groups.flatMap((group) => group.bars)
  const labelWidth = Math.max(...bars.map(({ label, isOurs }) => widthOf(label, isOurs)))
  const left = MARGIN + Math.min(labelWidth, LABEL_WIDTH_MAX) + 12
  const scale = scaleOf(
    bars.map(({ value }) => value),
    chart.isLogY ?? false,
    [left, WIDTH - FIGURE_WIDTH],
  )
  const shapes: string[] = []
  let y = top
  for (const { heading, bars } of groups) {
    if (heading !== undefined) {
      shapes.push(text(MARGIN, y + 14, heading, { weight: 600, fill: { class: 'ink' } }))
      y += HEADING_HEIGHT
    }
    for (const bar of bars) {
      shapes.push(...barOf(bar, left, y, scale.at(bar.value)))
      y += BAR_STEP
    }
    y += heading === undefined ? 0 : GROUP_GAP
  }
  return { height: y + 8, shapes }
}

/** Categories with one bar have no heading: the bar is labelled with the category. */
function groupsOf({ series }: Chart): Group[] {
  const categories = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => String(x))))]
  const groups = categories.map((category) => {
    const bars = series.flatMap(({ name, isOurs, points }) =>
      points
        .filter(({ x }) => String(x) === category)
        .map(({ y }): Bar => ({ label: name, isOurs, value: y })),
    )
    return { heading: category, bars }
  })
  const isPlain = groups.every(({ bars }) => bars.length === 1)
  if (!isPlain) return groups.length > 1 ? groups : groups.map(withoutHeading)
  return groups.map(({ heading, bars }) => ({
    heading: undefined,
    bars: bars.map((bar) => ({ ...bar, label: heading })),
  }))
}

/** A single category adds nothing to the title. */
function withoutHeading({ bars }: Group): Group {
  return { heading: undefined, bars }
}

function barOf({ label, isOurs, value }: Bar, left: number, y: number, right: number): string[] {
  const panel = { left, right: Math.max(right, left + 1), top: y, bottom: y + BAR_HEIGHT }
  const middle = y + BAR_HEIGHT / 2 + 4.5
  const strong = isOurs ? { weight: 600 } : {}
  return [
    text(left - 10, middle, label, { ...strong, fill: { class: 'ink' }, anchor: 'end' }),
    rectangle(panel, { class: isOurs ? 'ours' : 'peer' }, 2),
    text(panel.right + 8, middle, rough(value), { ...strong, fill: { class: 'ink' } }),
  ]
}
