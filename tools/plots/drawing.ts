/**
 * Draws runs as SVG: a picture of one run, and an overview of all. Every picture has a light
 * background, so that it looks the same on light and dark pages.
 */

import { circle, cross, INK, line, type Panel, svg, tenths, text, WIDTH } from '../charts/svg.ts'
import {
  END_MS,
  LIMIT,
  levels,
  type Mark,
  MOMENT_MS,
  mostWithin,
  PER_MS,
  type Run,
  type Subject,
} from './traffic.ts'

export interface Plot {
  readonly subject: Subject
  readonly run: Run
}

const QUIET = '#52606d'
const GRID = '#e4e7eb'
const BOUNDARY = '#9aa5b1'
const ADMITTED = '#2563eb'
const DENIED = '#d64545'
const LIMIT_LINE = '#b7791f'

const COUNT_MAX = 22

/** One run: every request as a mark, and below it the number of admitted requests that count. */
export function picture({ subject, run }: Plot): string {
  const height = 424
  const requests = { left: 64, right: WIDTH - 24, top: 112, bottom: 240 }
  const counts = { left: 64, right: WIDTH - 24, top: 272, bottom: 372 }
  const isSlots = subject.limit.algorithm === 'concurrency'
  const counted = isSlots ? 'in flight' : 'admitted in the last 10 s'
  const rule = isSlots ? 'at most 10 in flight' : '10 per 10 s'
  const boundaries = subject.isAligned ? [10_000, 20_000] : []
  return svg(height, `${subject.title}, ${rule}`, subject.promise, [
    background(height),
    text(24, 34, `${subject.title}: ${rule}`, { size: 19, weight: 600 }),
    text(24, 57, subject.promise, { fill: QUIET }),
    ...legend(24, 84, subject.isAligned, counted),
    timeGrid(requests),
    timeGrid(counts),
    ...boundaries.map((atMs) => boundary(atMs, requests.top - 8, counts.bottom, requests)),
    line(requests.left, requests.bottom, requests.right, requests.bottom, BOUNDARY),
    ...stacked(run.marks, requests, 8),
    ...countAxis(counts),
    countLine(run, counts),
    ...peak(run, requests, counts, isSlots),
    ...timeLabels(counts, counts.bottom + 20),
    text(WIDTH - 24, height - 14, 'seconds', { fill: QUIET, anchor: 'end' }),
  ])
}

/** All runs below one another, each with the most requests that it admitted. */
export function overview(plots: readonly Plot[]): string {
  const rowHeight = 104
  const top = 118
  const height = top + plots.length * rowHeight + 48
  const right = WIDTH - 232
  const rows = plots.flatMap((plot, at) => {
    const panel = { left: 164, right, top: top + at * rowHeight + 10, bottom: 0 }
    return overviewRow(plot, { ...panel, bottom: panel.top + rowHeight - 18 })
  })
  const axis = { left: 164, right, top, bottom: top + plots.length * rowHeight }
  const title = 'The same traffic through five algorithms'
  const about =
    'Limit 10 per 10 s. Two bursts of 15 around second 10, then one request every 0.8 s.'
  return svg(height, title, about, [
    background(height),
    text(24, 34, title, { size: 19, weight: 600 }),
    text(24, 57, about, { fill: QUIET }),
    ...legend(24, 84, true),
    text(right + 68, 84, 'most admitted within', { fill: QUIET }),
    text(right + 90, 104, '2 s', { fill: QUIET, anchor: 'middle' }),
    text(right + 168, 104, '10 s', { fill: QUIET, anchor: 'middle' }),
    timeGrid(axis),
    ...rows,
    ...timeLabels(axis, axis.bottom + 16),
    text(right, axis.bottom + 36, 'seconds', { fill: QUIET, anchor: 'end' }),
  ])
}

function overviewRow({ subject, run }: Plot, panel: Panel): string[] {
  const middle = (panel.top + panel.bottom) / 2 + 6
  const most = [mostWithin(run, MOMENT_MS), mostWithin(run, PER_MS)]
  const [atOnce = 0] = most
  const isOver = (at: number) => at === 0 && atOnce > LIMIT * 1.5
  return [
    text(24, middle, subject.title, { size: 15, weight: 600 }),
    line(panel.left, panel.bottom, panel.right, panel.bottom, BOUNDARY),
    ...(subject.isAligned
      ? [10_000, 20_000].map((atMs) => boundary(atMs, panel.top, panel.bottom, panel))
      : []),
    ...stacked(run.marks, panel, 5.4),
    ...most.map((count, at) =>
      text(panel.right + 90 + at * 78, middle, String(count), {
        size: 17,
        weight: isOver(at) ? 700 : 400,
        fill: isOver(at) ? DENIED : INK,
        anchor: 'middle',
      }),
    ),
  ]
}

/** A row of samples with labels of about 7 pixels per character. */
function legend(x: number, y: number, hasBoundaries: boolean, counted?: string): string[] {
  const stroke = (color: string, dashes?: string, width?: number) => (at: number) =>
    line(at, y - 5, at + 24, y - 5, color, dashes, width)
  const items = [
    { words: 'admitted', sample: (at: number) => circle(at + 5, y - 5, 4, ADMITTED), wide: 16 },
    { words: 'denied', sample: (at: number) => cross(at + 5, y - 5, 3.5, DENIED), wide: 16 },
  ]
  if (counted !== undefined) {
    items.push({ words: counted, sample: stroke(ADMITTED, undefined, 2), wide: 32 })
    items.push({ words: 'limit', sample: stroke(LIMIT_LINE, '6 4', 1.5), wide: 32 })
  }
  if (hasBoundaries) {
    items.push({ words: 'window boundary', sample: stroke(BOUNDARY, '4 3'), wide: 32 })
  }
  let at = x
  return items.flatMap(({ words, sample, wide }) => {
    const drawn = [sample(at), text(at + wide, y, words, { fill: QUIET })]
    at += wide + words.length * 7 + 24
    return drawn
  })
}

/** Stacks the requests of one column, the first one at the bottom. */
function stacked(marks: readonly Mark[], panel: Panel, size: number): string[] {
  const heights = new Map<number, number>()
  return marks.map(({ columnMs, admitted }) => {
    const level = heights.get(columnMs) ?? 0
    heights.set(columnMs, level + 1)
    const x = timeX(columnMs, panel)
    const y = panel.bottom - size * (level + 0.75)
    return admitted ? circle(x, y, size * 0.42, ADMITTED) : cross(x, y, size * 0.34, DENIED)
  })
}

function countAxis(panel: Panel): string[] {
  const ticks = [0, 10, 20].flatMap((count) => [
    line(panel.left, countY(count, panel), panel.right, countY(count, panel), GRID),
    text(panel.left - 10, countY(count, panel) + 4, String(count), { fill: QUIET, anchor: 'end' }),
  ])
  const y = countY(LIMIT, panel)
  return [...ticks, line(panel.left, y, panel.right, y, LIMIT_LINE, '6 4', 1.5)]
}

function countLine(run: Run, panel: Panel): string {
  const steps = levels(run).map(
    ({ atMs, count }) => `H${tenths(timeX(atMs, panel))}V${tenths(countY(count, panel))}`,
  )
  const path = `M${panel.left} ${panel.bottom}${steps.join('')}H${panel.right}`
  return `<path d="${path}" fill="none" stroke="${ADMITTED}" stroke-width="2"/>`
}

/** Labels the peak, in the empty first seconds of the picture. */
function peak(run: Run, requests: Panel, counts: Panel, isSlots: boolean): string[] {
  const end = timeX(8_400, counts)
  const atOnce = `${mostWithin(run, MOMENT_MS)} admitted within 2 s`
  const inPeriod = isSlots
    ? `at most ${Math.max(...levels(run).map(({ count }) => count))} in flight`
    : `at most ${mostWithin(run, PER_MS)} within 10 s`
  return [
    text(end, requests.bottom - 60, atOnce, { anchor: 'end', weight: 600 }),
    text(end, countY(14, counts), inPeriod, { anchor: 'end', weight: 600 }),
  ]
}

function boundary(atMs: number, top: number, bottom: number, panel: Panel): string {
  return line(timeX(atMs, panel), top, timeX(atMs, panel), bottom, BOUNDARY, '4 3')
}

const tickTimes = [0, 5_000, 10_000, 15_000, 20_000, 25_000, 30_000]

function timeGrid(panel: Panel): string {
  const lines = tickTimes.map(
    (atMs) => `M${tenths(timeX(atMs, panel))} ${panel.top}V${panel.bottom}`,
  )
  return `<path d="${lines.join('')}" stroke="${GRID}"/>`
}

function timeLabels(panel: Panel, y: number): string[] {
  return tickTimes.map((atMs) =>
    text(timeX(atMs, panel), y, String(atMs / 1000), { fill: QUIET, anchor: 'middle' }),
  )
}

function timeX(atMs: number, { left, right }: Pick<Panel, 'left' | 'right'>): number {
  return left + ((right - left) * atMs) / END_MS
}

function countY(count: number, { top, bottom }: Panel): number {
  return bottom - ((bottom - top) * count) / COUNT_MAX
}

function background(height: number): string {
  return `<rect width="${WIDTH}" height="${height}" rx="8" fill="#ffffff"/>`
}
