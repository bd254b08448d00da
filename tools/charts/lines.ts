/** Lines over two axes, each with its name at its end. */

import type { Chart, Shapes } from './chart.ts'
import { tickText } from './number-text.ts'
import { type Scale, scaleOf, tightLogScale, widthOf } from './scale.ts'
import { circle, line, type Panel, tenths, text, WIDTH } from './svg.ts'

interface Place {
  readonly x: number
  readonly y: number
}

interface Curve {
  readonly name: string
  readonly isOurs: boolean
  readonly places: readonly Place[]
  /** Classes of the style sheet for the line and its dots. */
  readonly line: string
  readonly dot: string
  /** Distinguishes several lines of ours, which have the same colour. */
  readonly dashes: string
}

const HEIGHT = 400
const LEFT = 76
const BOTTOM = HEIGHT - 52
const NAME_HEIGHT = 17
const LINE_COLORS = 4

/** Dots on one line; more would hide the line. */
const DOTS_MAX = 24

const dashesOfOurs = ['', '9 5', '3 4', '14 4 3 4']

export function lineShapes(chart: Chart, top: number): Shapes {
  const points = chart.series.flatMap((series) => series.points)
  const nameWidth = Math.max(...chart.series.map(({ name, isOurs }) => widthOf(name, isOurs)))
  const panel = { left: LEFT, right: WIDTH - nameWidth - 24, top: top + 8, bottom: BOTTOM }
  const xs = points.map(({ x }) => Number(x))
  const ys = points.map(({ y }) => y)
  const xScale = chart.isLogX
    ? tightLogScale(xs, panel.left, panel.right)
    : scaleOf(xs, false, [panel.left, panel.right])
  const yScale = yScaleOf(ys, chart.isLogY ?? false, panel)
  const curves = curvesOf(chart, xScale, yScale)
  return {
    height: HEIGHT,
    shapes: [
      ...horizontalGrid(yScale, panel),
      ...xMarks(xScale, panel),
      text((panel.left + panel.right) / 2, HEIGHT - 12, chart.xLabel, {
        fill: { class: 'quiet' },
        anchor: 'middle',
      }),
      ...curves.flatMap(curveShapes),
      ...names(curves, panel),
    ],
  }
}

/** The scale runs upwards and ends at a tick of the axis. */
function yScaleOf(values: readonly number[], isLog: boolean, { top, bottom }: Panel): Scale {
  const { ticks } = scaleOf(values, isLog, [bottom, top])
  return scaleOf([...values, ...ticks.slice(-1)], isLog, [bottom, top])
}

function curvesOf({ series }: Chart, xScale: Scale, yScale: Scale): Curve[] {
  let [own, peers] = [0, 0]
  // If all lines are ours, they get different colours.
  const isAlone = series.every(({ isOurs }) => isOurs)
  return series.map(({ name, isOurs, points }, at) => {
    const isBlue = isOurs && (!isAlone || at === 0)
    const color = isBlue ? undefined : peers++ % LINE_COLORS
    return {
      name,
      isOurs,
      places: points.map(({ x, y }) => ({ x: xScale.at(Number(x)), y: yScale.at(y) })),
      line: color === undefined ? 'ours-line' : `line-${color}`,
      dot: color === undefined ? 'ours' : `dot-${color}`,
      dashes: (isBlue ? dashesOfOurs[own++ % dashesOfOurs.length] : undefined) ?? '',
    }
  })
}

function horizontalGrid(scale: Scale, { left, right }: Panel): string[] {
  return scale.ticks.flatMap((tick) => {
    const y = scale.at(tick)
    return [
      line(left, y, right, y, { class: 'grid' }),
      text(left - 10, y + 4, tickText(tick), { fill: { class: 'quiet' }, anchor: 'end' }),
    ]
  })
}

/** A tick whose text would overlap the text before it has none. */
function xMarks(scale: Scale, { right, bottom }: Panel): string[] {
  let free = Number.NEGATIVE_INFINITY
  return scale.ticks
    .filter((mark) => scale.at(mark) <= right)
    .toSorted((one, other) => one - other)
    .flatMap((mark) => {
      const x = scale.at(mark)
      const tick = line(x, bottom, x, bottom + 5, { class: 'grid' })
      const half = widthOf(tickText(mark)) / 2
      if (x - half < free) return [tick]
      free = x + half + 6
      const style = { fill: { class: 'quiet' }, anchor: 'middle' } as const
      return [tick, text(x, bottom + 20, tickText(mark), style)]
    })
}

function curveShapes(curve: Curve): string[] {
  const path = curve.places.map(({ x, y }) => `${tenths(x)} ${tenths(y)}`).join('L')
  const width = curve.isOurs ? 3 : 2
  const dots = curve.places.length > DOTS_MAX ? [] : curve.places
  const dashed = curve.dashes === '' ? '' : ` stroke-dasharray="${curve.dashes}"`
  return [
    `<path d="M${path}" class="${curve.line}" stroke-width="${width}"${dashed}/>`,
    ...dots.map(({ x, y }) => circle(x, y, width + 0.5, { class: curve.dot })),
  ]
}

/** Labels at the ends of the lines, moved apart if they would overlap. */
function names(curves: readonly Curve[], { right }: Panel): string[] {
  const ends = curves.map((curve) => ({ curve, y: curve.places.at(-1)?.y ?? 0 }))
  ends.sort((one, other) => one.y - other.y)
  let free = Number.NEGATIVE_INFINITY
  const placed = ends.map(({ curve, y }) => {
    const at = Math.max(y, free)
    free = at + NAME_HEIGHT
    return { curve, y: at }
  })
  // Labels pushed below the axis move back up, and push those above them.
  let room = BOTTOM
  for (const end of placed.toReversed()) {
    end.y = Math.min(end.y, room)
    room = end.y - NAME_HEIGHT
  }
  return placed.map(({ curve, y }) =>
    text(right + 12, y + 4.5, curve.name, {
      ...(curve.isOurs ? { weight: 600 } : {}),
      fill: { class: curve.dot },
    }),
  )
}
