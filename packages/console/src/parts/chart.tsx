/** Lines over time. The legend has a dash for each line, and a table has the numbers. */

import { useEffect, useRef } from 'preact/hooks'
import UPlot from 'uplot'
import { time } from '../text.ts'
import { theme } from '../theme.ts'

export interface Line {
  readonly name: string
  /** The name of a variable in the style sheet. */
  readonly color: string
  readonly dash?: readonly number[]
  readonly values: readonly (number | null)[]
  readonly fill?: boolean
}

export interface Mark {
  readonly atMs: number
  readonly text: string
}

interface ChartProps {
  readonly label: string
  readonly unit: string
  readonly timesMs: readonly number[]
  readonly lines: readonly Line[]
  readonly marks?: readonly Mark[]
  format(value: number | null): string
}

const HEIGHT = 220

/** Rows of the table for screen readers: one in so many seconds. */
const ROWS_MAX = 15

export function Chart(props: ChartProps) {
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot | undefined>(undefined)
  const latest = useRef(props)
  latest.current = props
  const shape = `${theme.value} ${props.lines.map(({ name }) => name).join()}`
  useEffect(() => {
    const place = holder.current
    if (place === null) return
    const made = new UPlot(optionsOf(latest, place.clientWidth), dataOf(latest.current), place)
    plot.current = made
    const watch = new ResizeObserver(() => {
      if (place.clientWidth > 0) made.setSize({ width: place.clientWidth, height: HEIGHT })
    })
    watch.observe(place)
    return () => {
      watch.disconnect()
      made.destroy()
      plot.current = undefined
    }
  }, [shape])
  useEffect(() => plot.current?.setData(dataOf(props)))
  return (
    <figure class="chart">
      <figcaption>
        <ul class="legend">
          {props.lines.map(({ name, color, dash, values }) => (
            <li key={name}>
              <svg width="26" height="10" aria-hidden="true">
                <line
                  x1="1"
                  x2="25"
                  y1="5"
                  y2="5"
                  class={`line-${color}`}
                  stroke-dasharray={dash?.join(' ')}
                />
              </svg>
              {name} <b>{props.format(values.at(-1) ?? null)}</b>
            </li>
          ))}
        </ul>
        <span class="unit">{props.unit}</span>
      </figcaption>
      <div ref={holder} class="plot" role="img" aria-label={`${props.label}, ${props.unit}`} />
      <DataTable {...props} />
    </figure>
  )
}

function DataTable({ label, timesMs, lines, format }: ChartProps) {
  const step = Math.max(1, Math.ceil(timesMs.length / ROWS_MAX))
  const rows = timesMs.flatMap((atMs, at) => (at % step === 0 ? [{ atMs, at }] : [])).reverse()
  return (
    <details class="data">
      <summary>Numbers of this chart</summary>
      <table>
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {lines.map(({ name }) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ atMs, at }) => (
            <tr key={atMs}>
              <th scope="row">{time(atMs)}</th>
              {lines.map(({ name, values }) => (
                <td key={name} class="number">
                  {format(values[at] ?? null)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  )
}

function dataOf({ timesMs, lines }: ChartProps): UPlot.AlignedData {
  return [timesMs.map((atMs) => atMs / 1_000), ...lines.map(({ values }) => [...values])]
}

function optionsOf(latest: { readonly current: ChartProps }, width: number): UPlot.Options {
  const style = getComputedStyle(document.documentElement)
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const axis = {
    stroke: color('muted'),
    font: '12px system-ui, sans-serif',
    grid: { stroke: color('line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    padding: [8, 8, 0, 0],
    scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 28, space: 64, values: (_, times) => times.map(clockText(times)) },
      { ...axis, size: 56, values: (_, values) => values.map((one) => latest.current.format(one)) },
    ],
    series: [
      {},
      ...latest.current.lines.map((line) => ({
        label: line.name,
        stroke: color(line.color),
        width: 2,
        points: { show: false },
        ...(line.dash !== undefined && { dash: [...line.dash] }),
        ...(line.fill === true && { fill: `${color(line.color)}22` }),
      })),
    ],
    hooks: { draw: [(plot) => drawMarks(plot, latest.current.marks ?? [], color('muted'))] },
  }
}

/** With seconds while the marks of the axis are closer than a minute. */
function clockText(times: readonly number[]): (at: number) => string {
  const isClose = (times[1] ?? 0) - (times[0] ?? 0) < 60
  return (at) => time(at * 1_000).slice(0, isClose ? 8 : 5)
}

/** A line at the time of each change. */
function drawMarks(plot: UPlot, marks: readonly Mark[], color: string): void {
  const { ctx, bbox } = plot
  ctx.save()
  ctx.strokeStyle = color
  ctx.lineWidth = devicePixelRatio
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio])
  for (const { atMs } of marks) {
    const x = plot.valToPos(atMs / 1_000, 'x', true)
    if (x < bbox.left || x > bbox.left + bbox.width) continue
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
  }
  ctx.restore()
}
