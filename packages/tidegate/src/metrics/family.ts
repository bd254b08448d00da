/**
 * Families of series: plain numbers that are counted on the way, and read when a page of metrics is
 * made. A caller keeps the cell of a series and adds to it, which takes a few nanoseconds.
 *
 * One label of a family may take names from outside, such as those of limits. The number of these
 * names is bounded: further ones are counted together as `other`.
 */

import { systemClock } from '../clock.ts'

export const metricTypes = ['counter', 'gauge', 'histogram'] as const

export type MetricType = (typeof metricTypes)[number]

/** A metric with its series, in a form that any registry can be filled from. */
export interface MetricFamily {
  readonly name: string
  readonly type: MetricType
  readonly help: string
  /** The upper bounds of the buckets of a histogram, in ascending order and without infinity. */
  readonly bounds?: readonly number[]
  readonly samples: readonly MetricSample[]
}

export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>
  /** The value; of a histogram, the number of values that were observed. */
  readonly value: number
  /** Histograms only: the sum of all values. */
  readonly sum?: number
  /** Histograms only: the number of values up to each bound. */
  readonly buckets?: readonly number[]
  /** Histograms only: a value of each bucket that has a trace; the last is above all bounds. */
  readonly exemplars?: readonly (Exemplar | null)[]
}

/** A value with the trace that it was observed in. */
export interface Exemplar {
  readonly traceId: string
  readonly value: number
  /** In seconds since 1970. */
  readonly atSeconds: number
}

export interface FamilyOptions {
  readonly name: string
  readonly help: string
  readonly labels?: readonly string[]
  /** The label whose values are not a closed list, and how many of them have their own series. */
  readonly open?: { readonly label: string; readonly namesMax: number }
}

/** The value of an open label behind its maximum. */
export const OTHER = 'other'

export class Counter {
  value = 0
}

export class Histogram {
  readonly #bounds: readonly number[]
  /** Values of each bucket that no lower bucket has; the last one is for all larger values. */
  readonly #counts: Float64Array
  #sum = 0
  /** Those of the latest values; undefined until a value has a trace. */
  #exemplars: (Exemplar | null)[] | undefined

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  /**
   * Adds a value `times` times: a sampled value stands for those that were not measured. `traceId`
   * is the trace that the value was observed in, if it is kept.
   */
  observe(value: number, times = 1, traceId?: string): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > (bounds[at] as number)) at += 1
    this.#counts[at] = (this.#counts[at] as number) + times
    this.#sum += value * times
    if (traceId === undefined) return
    this.#exemplars ??= new Array(this.#counts.length).fill(null)
    this.#exemplars[at] = { traceId, value, atSeconds: systemClock.now() / 1_000 }
  }

  read(): HistogramSample {
    let value = 0
    const cumulative = [...this.#counts].map((count) => {
      value += count
      return value
    })
    const read = { value, sum: this.#sum, buckets: cumulative.slice(0, -1) }
    return this.#exemplars === undefined ? read : { ...read, exemplars: [...this.#exemplars] }
  }
}

type HistogramSample = Required<Pick<MetricSample, 'value' | 'sum' | 'buckets'>> &
  Pick<MetricSample, 'exemplars'>

/** The series of one metric, each with its cell. */
export class Family<Cell> {
  readonly #options: FamilyOptions
  readonly #kind: Kind<Cell>
  readonly #series = new Map<string, { readonly values: readonly string[]; readonly cell: Cell }>()
  readonly #openAt: number
  readonly #names = new Set<string>()
  /** How often a name had to be counted as `other`. */
  overflows = 0

  constructor(options: FamilyOptions, kind: Kind<Cell>) {
    this.#options = options
    this.#kind = kind
    this.#openAt = options.labels?.indexOf(options.open?.label ?? '') ?? -1
  }

  get name(): string {
    return this.#options.name
  }

  /** The cell of a series. To be kept by callers that count often. */
  of(...values: readonly string[]): Cell {
    const found = this.#series.get(values.join('\0'))
    if (found !== undefined) return found.cell
    const bounded = this.#bounded(values)
    const key = bounded.join('\0')
    const known = this.#series.get(key)
    if (known !== undefined) return known.cell
    const cell = this.#kind.make()
    this.#series.set(key, { values: bounded, cell })
    return cell
  }

  /** Forgets the series of names that are no longer in use, so that others can have their place. */
  keepNames(names: ReadonlySet<string>): void {
    for (const name of this.#names) if (!names.has(name)) this.#names.delete(name)
    for (const [key, { values }] of this.#series) {
      const name = values[this.#openAt]
      if (name !== undefined && name !== OTHER && !names.has(name)) this.#series.delete(key)
    }
  }

  read(): MetricFamily {
    const { name, help, labels = [] } = this.#options
    const { type, bounds, read } = this.#kind
    const samples = [...this.#series.values()].map(({ values, cell }) => {
      const pairs = labels.map((label, at) => [label, values[at] ?? ''] as const)
      return { labels: Object.fromEntries(pairs), ...read(cell) }
    })
    return { name, help, type, ...(bounds !== undefined && { bounds }), samples }
  }

  #bounded(values: readonly string[]): readonly string[] {
    const name = values[this.#openAt]
    const { open } = this.#options
    if (name === undefined || open === undefined || this.#names.has(name)) return values
    if (this.#names.size < open.namesMax) {
      this.#names.add(name)
      return values
    }
    this.overflows += 1
    return values.with(this.#openAt, OTHER)
  }
}

/** What differs between the types of metrics. */
interface Kind<Cell> {
  readonly type: MetricType
  readonly bounds?: readonly number[]
  make(): Cell
  read(cell: Cell): Omit<MetricSample, 'labels'>
}

export function counterFamily(options: FamilyOptions): Family<Counter> {
  return new Family(options, {
    type: 'counter',
    make: () => new Counter(),
    read: ({ value }) => ({ value }),
  })
}

export function histogramFamily(
  options: FamilyOptions,
  bounds: readonly number[],
): Family<Histogram> {
  return new Family(options, {
    type: 'histogram',
    bounds,
    make: () => new Histogram(bounds),
    read: (cell) => cell.read(),
  })
}

/** A gauge is read when it is asked for. */
export function gauge(
  name: string,
  help: string,
  value: number | readonly MetricSample[] | undefined,
): MetricFamily {
  const samples = typeof value === 'number' ? [{ labels: {}, value }] : (value ?? [])
  return { name, help, type: 'gauge', samples }
}
