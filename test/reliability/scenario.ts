/**
 * What the scenarios share: how long faults last, what must always hold, and how the figures of a
 * run are read. Every scenario is a load of 1,000 checks per second from two processes on a real
 * server, to which something happens.
 *
 * Times are judged against timers of the same process, as a machine may be busy.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, vi } from 'vitest'
import type { Load } from '../faults/load.ts'
import { type Check, checksOf } from '../faults/load-records.ts'
import type { LoadReport, PhaseReport } from '../faults/load-report.ts'
import { until } from '../servers/until.ts'
import { sizes } from '../suite.ts'

/** The clients that the scenarios run with. */
export const clients = ['ioredis 6', 'node-redis 6'] as const

/** Whether faults last as long as docs/reliability.md says, which takes some ten minutes in all. */
export const isLong = process.env.TIDEGATE_RELIABILITY === 'long'

if (isLong) vi.setConfig({ testTimeout: 180_000 })

/** In the test suite one client, in long runs all. */
export function clientsOf(client: (typeof clients)[number]): readonly string[] {
  return isLong ? clients : [client]
}

/** Of the runs that docs/reliability.md tells about: what is beyond the 99.9th percentile. */
const LATE_SHARE_LONG_MAX = 0.001

/** How long something lasts, in the test suite and in the runs that the page tells about. */
export function lasting(shortMs: number, longMs: number): number {
  return isLong ? longMs : shortMs
}

/** Lets a fault last. */
export async function last(ms: number): Promise<void> {
  await sleep(ms)
}

/** Until both processes have had a quarter of a second with hardly a decision without the store. */
export async function untilNormal(load: Load, degradedShareMax = 0.1): Promise<void> {
  const since = load.samples.map((samples) => samples.length)
  await until('decisions are the store’s again', () =>
    load.samples.every((samples, process) =>
      samples
        .slice((since[process] ?? 0) + 1)
        .some(({ made, degraded }) => made > 0 && degraded <= made * degradedShareMax),
    ),
  )
}

/**
 * Every check has a decision, and nearly all of them within the deadline and a turn of the event
 * loop; how many, says test/suite.ts.
 * Those before the first mark are not judged: a process that has just started compiles.
 */
export function expectOnTime({ phases, pending }: LoadReport): void {
  const [, ...judged] = phases
  const made = judged.reduce((sum, phase) => sum + phase.made, 0)
  const late = judged.reduce((sum, phase) => sum + phase.late, 0)
  expect(phases.flatMap(({ errors }) => Object.keys(errors))).toEqual([])
  expect(pending).toBe(0)
  expect(late / made).toBeLessThanOrEqual(isLong ? LATE_SHARE_LONG_MAX : sizes.lateShareMax)
}

/** Most decisions of an open breaker take less than 1 ms; others, when the process is held up. */
export function expectQuickOnceOpen(report: LoadReport): void {
  const open = allChecks(report).filter(({ note }) => note.startsWith('breaker-open'))
  const quick = open.filter(({ tookMs }) => tookMs < 1)
  expect(quick.length / open.length).toBeGreaterThan(sizes.atOnceShareMin)
}

/** What the store admitted is counted, and what was left unknown at most once. */
export function expectCountedOnce(report: LoadReport, used: number): void {
  const checks = allChecks(report)
  const counted = checks.filter((check) => isAllowed(check) && isOfStore(check)).length
  const unknown = checks.filter(({ note }) => /^(timeout|unreachable)/.test(note)).length
  expect(used).toBeGreaterThanOrEqual(counted)
  expect(used).toBeLessThanOrEqual(counted + unknown)
}

export function phaseOf({ phases }: LoadReport, name: string): PhaseReport {
  const phase = phases.find((each) => each.name === name)
  if (phase === undefined) throw new Error(`the load has no phase ${name}`)
  return phase
}

/** The checks that began from one mark on, and before another. */
export function checksFrom(report: LoadReport, from: string, to?: string): Check[] {
  const fromMs = phaseOf(report, from).startedMs
  const toMs = to === undefined ? Number.POSITIVE_INFINITY : phaseOf(report, to).startedMs
  return allChecks(report).filter(({ startedMs }) => startedMs >= fromMs && startedMs < toMs)
}

export function durationMs(report: LoadReport, from: string, to: string): number {
  return phaseOf(report, to).startedMs - phaseOf(report, from).startedMs
}

export function allChecks({ processes }: LoadReport): Check[] {
  return processes.flatMap(({ records }) => [...checksOf(records)])
}

/** How long after a mark each process had its first decision of the store; the longest. */
export function normalAfterMs(
  report: LoadReport,
  name: string,
  isMeant: (check: Check) => boolean = () => true,
): number {
  const { startedMs } = phaseOf(report, name)
  const firstMs = report.processes.map(({ records }) => {
    for (const check of checksOf(records)) {
      if (check.startedMs < startedMs || !isMeant(check)) continue
      if (isOfStore(check)) return check.startedMs - startedMs
    }
    return Number.POSITIVE_INFINITY
  })
  return Math.max(...firstMs)
}

/** How long after a mark the breaker of each process was open; the longest. */
export function openAfterMs(report: LoadReport, name: string): number {
  const { startedMs } = phaseOf(report, name)
  const firstMs = report.processes.map(({ records }) => {
    for (const { startedMs: atMs, note } of checksOf(records)) {
      if (atMs >= startedMs && note.startsWith('breaker-open')) return atMs - startedMs
    }
    return Number.POSITIVE_INFINITY
  })
  return Math.max(...firstMs)
}

/** Whether the store has decided. */
export function isOfStore({ outcome, note }: Check): boolean {
  return note === '' && (outcome === 'allowed' || outcome === 'denied')
}

export function isAllowed({ outcome }: Check): boolean {
  return outcome === 'allowed'
}
