/**
 * What a part of the benchmark is, and what it finds. The table on the screen, the JSON, the page
 * docs/benchmarks.md, the charts and the README's headline table are all made from `Finding`s; none
 * of them is typed.
 */

export interface Part {
  /** As in `./run.sh bench NAME`; the file is bench/NAME.ts. */
  readonly name: string
  readonly title: string
  /** One to three sentences: what is compared with what, on what. */
  readonly compares: string
  run(run: Run): Promise<void>
}

/** What a part is given. Whatever it reports, it reports through this. */
export interface Run {
  /** A short version: the same comparisons, fewer and shorter rounds, smaller sizes. */
  readonly isQuick: boolean
  /** Whether programs of others that are missing may be installed into .tools/ first. */
  readonly installsPeers: boolean
  /** Shown in the progress line. */
  progress(text: string): void
  /** Called when the part ends, the last first, also after an error. */
  onStop(stop: () => unknown): void
  compared(comparison: Comparison): void
  table(table: Table): void
  chart(chart: Chart): void
  /** Who took part, for the list of versions; Node and the Redis server are in it by themselves. */
  uses(name: string, version: string): void
  /** What was left out, and why: `HAProxy: not installed (apt-get install haproxy)`. */
  skipped(line: string): void
  /** A sentence for the page, such as the reason why a peer is faster. */
  note(sentence: string): void
}

/** Ours against one peer, both in the same run, taking turns. */
export interface Comparison {
  /** Unique over all parts: `redis-256-uniform`. The README's table picks by it. */
  readonly name: string
  /** What is compared, as a row of a table: `10,000 keys, 256 calls in flight`. */
  readonly what: string
  readonly ours: string
  readonly peer: string
  /** Of the figures, such as `decisions per second`. */
  readonly unit: string
  /** One per round, ours and the peer's, in the order of the rounds. */
  readonly rounds: readonly { readonly ours: number; readonly peer: number }[]
  /** Where less is better (latency, bytes), the ratio is turned round: above 1 is always good. */
  readonly isLessBetter?: boolean
  /** The ratio that is aimed at, where there is one. */
  readonly aim?: number
  /** One sentence on why the peer is faster. Shown only where it is, or where the aim is missed. */
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
     * A text stands as it is; undefined is an empty cell. `missed` says that the row has missed an
     * aim, and puts it among what Tidegate does worse.
     */
    readonly cells: readonly (number | string | undefined)[]
  }[]
}

export interface Chart {
  /** The file is docs/images/bench-NAME.svg. */
  readonly name: string
  readonly title: string
  readonly kind: 'bars' | 'lines'
  readonly xLabel: string
  readonly yLabel: string
  readonly isLogX?: boolean
  readonly isLogY?: boolean
  readonly series: readonly {
    readonly name: string
    readonly isOurs: boolean
    /** For bars `x` is a category. */
    readonly points: readonly { readonly x: number | string; readonly y: number }[]
  }[]
}

/** All that one part has reported, as it is stored in JSON. */
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
