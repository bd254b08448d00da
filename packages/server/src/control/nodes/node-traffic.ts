/**
 * A few numbers of each node for the console. A node that serves a page sets a mark below `live/`,
 * which every node follows anyway; while there is a mark, each node writes its numbers every 5 s.
 * Without an open page nothing is written, so that the history of etcd does not grow.
 *
 * Marks and numbers are leased: those of a dead node disappear.
 */

import type { KeyValueStore } from '../key-value.ts'

/** Averages since the report before. */
export interface NodeTraffic {
  readonly allowedPerSecond: number
  readonly refusedPerSecond: number
  readonly degradedPerSecond: number
  readonly failedPerSecond: number
  /** Null without a decision. */
  readonly p99Ms: number | null
}

const TRAFFIC_PREFIX = 'traffic/'
const MARKS_PREFIX = 'live/pages/'

/** 50 nodes write 10 small entries a second, far below what etcd takes. */
const EVERY_MS = 5_000

const fields = [
  ...(['allowedPerSecond', 'refusedPerSecond', 'degradedPerSecond', 'failedPerSecond'] as const),
]

export interface TrafficReporterOptions {
  readonly store: KeyValueStore
  /** The name under which the node reports. */
  readonly id: string
  /** Returns the numbers since the last call. */
  take(): NodeTraffic
}

export class TrafficReporter {
  readonly #options: TrafficReporterOptions
  readonly #end: () => void
  #isOpen = false
  #timer: NodeJS.Timeout | undefined
  #written: string | undefined
  /** One write of this node after the other, so that the last one wins. */
  #tail: Promise<unknown> = Promise.resolve()

  constructor(options: TrafficReporterOptions) {
    this.#options = options
    this.#end = options.store.follow(MARKS_PREFIX, {
      onChange: ({ entries }) => (entries.length > 0 ? this.#start() : this.#stop()),
      onContact: (isReachable) => {
        // A mark that could not be written while the store was away.
        if (isReachable && this.#isOpen) this.setOpen(true)
      },
    })
  }

  /** Asks all nodes for their numbers, or ends that. */
  setOpen(isOpen: boolean): void {
    this.#isOpen = isOpen
    const key = `${MARKS_PREFIX}${this.#options.id}`
    this.#write(key, isOpen ? '{}' : undefined)
  }

  close(): void {
    this.#end()
    clearInterval(this.#timer)
  }

  #start(): void {
    if (this.#timer !== undefined) return
    // Numbers since the last page was open would be an average over hours.
    this.#options.take()
    this.#timer = setInterval(() => this.#report(), EVERY_MS).unref()
  }

  #stop(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#written = undefined
    this.#write(this.#key, undefined)
  }

  #report(): void {
    const value = JSON.stringify(this.#options.take())
    if (value === this.#written) return
    this.#written = value
    this.#write(this.#key, value)
  }

  get #key(): string {
    return `${TRAFFIC_PREFIX}${this.#options.id}`
  }

  #write(key: string, value: string | undefined): void {
    const { store } = this.#options
    this.#tail = this.#tail
      .then(() => store.transact([], [{ key, value, isLeased: true }]))
      .catch(() => {
        // The store is away, which its followers report; the next report is another attempt.
        this.#written = undefined
      })
  }
}

/** The numbers of all nodes by their names. What cannot be read is left out. */
export async function readTraffic(store: KeyValueStore): Promise<ReadonlyMap<string, NodeTraffic>> {
  const { entries } = await store.range(TRAFFIC_PREFIX)
  const found = new Map<string, NodeTraffic>()
  for (const { key, value } of entries) {
    const traffic = parsed(value)
    if (traffic !== undefined) found.set(key.slice(TRAFFIC_PREFIX.length), traffic)
  }
  return found
}

function parsed(text: string): NodeTraffic | undefined {
  try {
    const read = JSON.parse(text) as Record<string, unknown>
    if (!fields.every((field) => Number.isFinite(read[field]))) return undefined
    const { p99Ms } = read
    const numbers = fields.map((field) => [field, read[field]])
    const time = Number.isFinite(p99Ms) ? p99Ms : null
    return { ...Object.fromEntries(numbers), p99Ms: time } as NodeTraffic
  } catch {
    return undefined
  }
}
