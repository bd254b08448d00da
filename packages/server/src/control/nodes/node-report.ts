/** What each node of a fleet reports about its policy, under a lease: a dead node disappears. */

import type { KeyValueStore } from '../key-value.ts'

export const nodeStates = ['applied', 'refused', 'stale'] as const

/** `stale`: the node has not applied the published version, and has not refused it either. */
export type NodeState = (typeof nodeStates)[number]

export interface NodeReport {
  readonly node: string
  readonly region?: string | undefined
  /** The version that is live on the node; 0 for its local file alone. */
  readonly version: number
  readonly hash: string
  readonly state: NodeState
  /** At most `PROBLEMS_MAX`, each cut to one line. */
  readonly problems: readonly string[]
  readonly program: string
  readonly startedAt: string
  /** When the live version was applied, by the clock of the node. */
  readonly appliedAt: string
}

export const NODES_PREFIX = 'nodes/'

/** Enough to see the cause. */
const PROBLEMS_MAX = 5
const PROBLEM_LENGTH_MAX = 300

/** A report that could not be written is tried again after this time. */
const RETRY_MS = 2_000

export interface ReporterOptions {
  readonly store: KeyValueStore
  readonly node: string
  readonly region?: string | undefined
  /** Set if several processes have the name of this node: each reports for itself. */
  readonly process?: string | undefined
  readonly program: string
  /** The published version and the hash of the live one, as the source knows them. */
  status(): { readonly published: number; readonly hash: string }
}

export class NodeReporter {
  readonly #options: ReporterOptions
  readonly #startedAt = new Date().toISOString()
  #version = 0
  #appliedAt = this.#startedAt
  #problems: readonly string[] = []
  #isDirty = false
  #writing: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: ReporterOptions) {
    this.#options = options
  }

  /** `version` is 0 for a configuration of local files. */
  applied(version: number): void {
    this.#version = version
    this.#problems = []
    this.#appliedAt = new Date().toISOString()
    this.#write()
  }

  refused(problems: readonly string[]): void {
    this.#problems = problems.slice(0, PROBLEMS_MAX).map(oneLine)
    this.#write()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#retry)
    await this.#writing
  }

  report(): NodeReport {
    const { node, region, program, status } = this.#options
    const { published, hash } = status()
    const isRefused = this.#problems.length > 0
    const isApplied = published === 0 || published === this.#version
    return {
      node,
      ...(region !== undefined && { region }),
      version: this.#version,
      hash: this.#version === 0 ? '' : hash,
      state: isRefused ? 'refused' : isApplied ? 'applied' : 'stale',
      problems: this.#problems,
      program,
      startedAt: this.#startedAt,
      appliedAt: this.#appliedAt,
    }
  }

  /** One write at a time, of the newest report. */
  #write(): void {
    this.#isDirty = true
    this.#writing ??= this.#run().finally(() => {
      this.#writing = undefined
    })
  }

  async #run(): Promise<void> {
    const { store, node, process } = this.#options
    const key = `${NODES_PREFIX}${reportId(node, process)}`
    while (this.#isDirty && !this.#isClosed) {
      this.#isDirty = false
      const value = JSON.stringify(this.report())
      const write = { key, value, isLeased: true }
      try {
        await store.transact([], [write])
      } catch {
        // The store is away, which its followers report.
        this.#retry = setTimeout(() => this.#write(), RETRY_MS)
        this.#retry.unref()
        return
      }
    }
  }
}

/** The name under which a process reports; `process` is set if several have the name of a node. */
export function reportId(node: string, process: string | undefined): string {
  return process === undefined ? node : `${node}.${process}`
}

/** Reports that cannot be read are left out. */
export async function readNodes(store: KeyValueStore): Promise<readonly NodeReport[]> {
  return [...(await readReports(store)).values()]
}

/** The reports by the names under which they are kept. */
export async function readReports(store: KeyValueStore): Promise<ReadonlyMap<string, NodeReport>> {
  const { entries } = await store.range(NODES_PREFIX)
  const reports = new Map<string, NodeReport>()
  for (const { key, value } of entries) {
    const report = parsed(value)
    if (report !== undefined) reports.set(key.slice(NODES_PREFIX.length), report)
  }
  return reports
}

function parsed(text: string): NodeReport | undefined {
  try {
    const report = JSON.parse(text) as NodeReport
    const isReport = typeof report.node === 'string' && Number.isSafeInteger(report.version)
    return isReport && Array.isArray(report.problems) ? report : undefined
  } catch {
    return undefined
  }
}

function oneLine(text: string): string {
  return (text.split('\n')[0] ?? '').slice(0, PROBLEM_LENGTH_MAX)
}
