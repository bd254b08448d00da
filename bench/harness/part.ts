/**
 * The contract of a part of the benchmark, and its findings. The table on the screen, the JSON,
 * docs/benchmarks.md, the charts and the README's headline table are all generated from `Finding`s.
 */

import type { Chart } from '../../tools/charts/chart.ts'

export interface Part {
  /** As in `./run.sh bench NAME`; the file is bench/NAME.ts. */
  readonly name: string
  readonly title: string
  /** One to three sentences: the contenders, and the machine or server that they run on. */
  readonly compares: string
  run(run: Run): Promise<void>
}

/** The port through which a part reports everything. */
export interface Run {
  /** A short version: the same comparisons, fewer and shorter rounds, smaller sizes. */
  readonly isQuick: boolean
  /** True if missing programs of peers may be installed into .tools/ first. */
  readonly installsPeers: boolean
  /** Shown in the progress line. */
  progress(text: string): void
  /** Registers a callback for the end of the part, also after an error; the last one runs first. */
  onStop(stop: () => unknown): void
  compared(comparison: Comparison): void
  table(table: Table): void
  chart(chart: Chart): void
  /** Adds a contender to the list of versions, which always has Node and the Redis server. */
  uses(name: string, version: string): void
  /** A contender that was left out, and why: `HAProxy: not installed (apt-get install haproxy)`. */
  skipped(line: string): void
  /** A sentence for the page, such as the reason why a peer is faster. */
  note(sentence: string): void
}

/** Ours against one peer, both in the same run, taking turns. */
export interface Comparison {
  /** Unique over all parts, such as `redis-256-uniform`. The README's table selects by it. */
  readonly name: string
  /** The name of its row in a table: `10,000 keys, 256 calls in flight`. */
  readonly what: string
  readonly ours: string
  readonly peer: string
  /** The unit of the figures, such as `decisions per second`. */
  readonly unit: string
  /** One entry per round, in the order of the rounds. */
  readonly rounds: readonly { readonly ours: number; readonly peer: number }[]
  /**
   * True if less is better (latency, bytes). The ratio is inverted then: above 1 is always good.
   */
  readonly isLessBetter?: boolean
  /** The ratio that the comparison aims at. */
  readonly aim?: number
  /** One sentence on why the peer is faster; shown only if it is, or if the aim is missed. */
  readonly reason?: string
}

export interface Table {
  readonly name: string
  readonly title: string
  /** The first column is the row's name and has no entry here. */
  readonly columns: readonly { readonly name: string; readonly digits?: number }[]
  readonly rows: readonly {
    readonly name: string
    readonly isOurs: boolean
    /**
     * A text is shown as it is; undefined is an empty cell. `missed` lists the row among the
     * results in which Tidegate is worse.
     */
    readonly cells: readonly (number | string | undefined)[]
  }[]
}

/** The report of one part, as it is stored in JSON. */
export interface Finding {
  readonly part: string
  readonly title: string
  readonly compares: string
  readonly at: string
  readonly seconds: number
  readonly isQuick: boolean
  readonly machine: Machine
  readonly comparisons: readonly Comparison[]
  readonly tables: readonly Table[]
  readonly charts: readonly Chart[]
  readonly skipped: readonly string[]
  readonly notes: readonly string[]
}

export interface Machine {
  readonly cores: number
  readonly processor: string
  readonly memoryGb: number
  readonly system: string
  /** Node, Redis and the peers that took part: name to version. */
  readonly versions: Readonly<Record<string, string>>
}
