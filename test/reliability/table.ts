/**
 * The tables of docs/reliability.md. A scenario reports its rows, which are printed, and appended
 * to a file if a variable names one; report.ts writes the tables from that file.
 */

import { appendFileSync } from 'node:fs'
import type { Figures } from '../support/faults/load-report.ts'

/** In the order of the table. */
export const faults = [
  'Redis killed for 10 s, `open`',
  'Redis killed for 10 s, `closed`',
  'Redis killed for 10 s, `local`',
  'Redis killed for 10 s, 50 clients',
  'Redis stopped for 30 s',
  'latency from 0 to 500 ms and back',
  'connections reset after the request',
  'connection that leads nowhere',
  'master killed, Sentinel',
  'master killed, Cluster: its shard',
  'master killed, Cluster: the others',
  '`maxmemory` reached',
  '`maxclients` reached',
  '`SCRIPT FLUSH` every 50 ms',
  'clock of Redis ±1 h',
] as const

export type Fault = (typeof faults)[number]

/** One fault: the decisions during it, and the recovery. */
export interface FaultRow {
  readonly table: 'faults'
  readonly fault: Fault
  readonly client: string
  readonly made: number
  readonly allowed: number
  /** By reason. */
  readonly degraded: Readonly<Record<string, number>>
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  readonly maxMs: number
  /** From the end of the fault to the store's first decision; undefined if it kept deciding. */
  readonly normalAfterMs: number | undefined
}

/** One partition: the decisions of the store, and the lost ones among them. */
export interface LossRow {
  readonly table: 'losses'
  readonly servers: string
  readonly client: string
  readonly setting: string
  /** Admitted by the store during the partition, and confirmed by replicas if required. */
  readonly acknowledged: number
  readonly lost: number
  /** From the first lost decision to the last. */
  readonly windowMs: number
}

export type Row = FaultRow | LossRow

/** The variable with the path of the file of rows. */
export const ROWS_VARIABLE = 'TIDEGATE_RELIABILITY_ROWS'

export function tell(row: Row): void {
  console.log(tableOf([row]).split('\n').at(-1))
  const file = process.env[ROWS_VARIABLE]
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(row)}\n`)
}

export function tellFault(
  { fault, client, normalAfterMs }: Pick<FaultRow, 'fault' | 'client' | 'normalAfterMs'>,
  { made, allowed, degraded, p50Ms, p99Ms, p999Ms, maxMs }: Figures,
): void {
  const times = { p50Ms, p99Ms, p999Ms, maxMs }
  const reasons = byReason(degraded)
  const figures = { made, allowed, degraded: reasons, ...times, normalAfterMs }
  tell({ table: 'faults', fault, client, ...figures })
}

/** The rows of one table, as Markdown. */
export function tableOf(rows: readonly Row[]): string {
  const heading = rows[0]?.table === 'losses' ? lossHeading : faultHeading
  const cells = rows.map((row) => (row.table === 'losses' ? lossCells(row) : faultCells(row)))
  const lines = [heading, heading.map(() => '---'), ...cells]
  return lines.map((line) => `| ${line.join(' | ')} |`).join('\n')
}

const faultHeading = [
  ...['fault', 'client', 'decisions', 'admitted', 'degraded', 'p50', 'p99', 'p99.9', 'longest'],
  'normal after',
]

function faultCells(row: FaultRow): string[] {
  const degraded = Object.entries(row.degraded).map(([reason, count]) => `${reason} ${count}`)
  return [
    row.fault,
    row.client,
    String(row.made),
    String(row.allowed),
    degraded.join(', ') || 'none',
    ...[row.p50Ms, row.p99Ms, row.p999Ms, row.maxMs].map(milliseconds),
    row.normalAfterMs === undefined ? 'at once' : seconds(row.normalAfterMs),
  ]
}

const lossHeading = ['servers', 'client', 'setting', 'acknowledged', 'lost', 'share', 'window']

function lossCells({ acknowledged, lost, ...row }: LossRow): string[] {
  const share = `${((100 * lost) / acknowledged).toFixed(1)} %`
  const window = lost === 0 ? 'none' : seconds(row.windowMs)
  return [row.servers, row.client, row.setting, String(acknowledged), String(lost), share, window]
}

function byReason(degraded: Readonly<Record<string, number>>): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const [note, count] of Object.entries(degraded)) {
    const [reason = note] = note.split('/')
    counts[reason] = (counts[reason] ?? 0) + count
  }
  return counts
}

function milliseconds(ms: number): string {
  return ms < 0.1 ? `${ms.toFixed(2)} ms` : `${ms.toFixed(1)} ms`
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`
}
