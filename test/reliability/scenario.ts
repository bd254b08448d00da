/**
 * Shared by the scenarios: durations of faults, invariants, and figures of a run. Every scenario is
 * a load of 1,000 checks per second from two processes on a real server, during a fault.
 *
 * Times are compared with timers of the same process, because the machine may be busy.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { expect, vi } from 'vitest'
import type { Load } from '../support/faults/load.ts'
import { type Check, checksOf } from '../support/faults/load-records.ts'
import type { LoadReport, PhaseReport } from '../support/faults/load-report.ts'
import { until } from '../support/servers/until.ts'
import { sizes } from '../support/suite.ts'

/** The clients that the scenarios run with. */
export const clients = ['ioredis 6', 'node-redis 6'] as const

/** True if faults last as long as docs/reliability.md states, which takes ten minutes in all. */
export const isLong = process.env.TIDEGATE_RELIABILITY === 'long'

if (isLong) vi.setConfig({ testTimeout: 180_000 })

/** One client in the test suite, all in long runs. */
export function clientsOf(client: (typeof clients)[number]): readonly string[] {
  return isLong ? clients : [client]
}

/** The share of late checks in the runs of docs/reliability.md: beyond the 99.9th percentile. */
const LATE_SHARE_LONG_MAX = 0.001

/** A duration, in the test suite and in the runs of docs/reliability.md. */
export function lasting(shortMs: number, longMs: number): number {
  return isLong ? longMs : shortMs
}

/** Waits while a fault lasts. */
export async function last(ms: number): Promise<void> {
  await sleep(ms)
}

/** Waits until both processes had a quarter of a second with hardly any degraded decision. */
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

/** Waits until both processes had degraded decisions, also if the machine stalled meanwhile. */
export async function untilDegraded(load: Load, since: number): Promise<void> {
  await until('decisions are degraded', () =>
    load.samples.every((samples) =>
      samples.some(({ atMs, degraded }) => atMs > since && degraded > 0),
    ),
  )
}

/** Waits until each process knows of the others, and so its share. */
export async function untilShared(load: Load): Promise<void> {
  await until('the processes know one another', () =>
    load.samples.every((samples) => samples.at(-1)?.nodes === load.processes.length),
  )
}

/**
 * Expects a decision for every check, and nearly all of them within the deadline and a turn of the
 * event loop; test/support/suite.ts has the share. Checks before the first mark are ignored,
 * because a new process compiles its code.
 */
export function expectOnTime({ phases, pending }: LoadReport): void {
  const [, ...judged] = phases
  const made = judged.reduce((sum, phase) => sum + phase.made, 0)
  const late = judged.reduce((sum, phase) => sum + phase.late, 0)
  expect(phases.flatMap(({ errors }) => Object.keys(errors))).toEqual([])
  expect(pending).toBe(0)
  expect(late / made).toBeLessThanOrEqual(isLong ? LATE_SHARE_LONG_MAX : sizes.lateShareMax)
}

/**
 * Expects that most decisions of an open breaker take less than 1 ms; a stalled process takes
 * longer.
 */
export function expectQuickOnceOpen(report: LoadReport): void {
  const open = allChecks(report).filter(({ note }) => note.startsWith('breaker-open'))
  const quick = open.filter(({ tookMs }) => tookMs < 1)
  expect(quick.length / open.length).toBeGreaterThan(sizes.atOnceShareMin)
}

/** Expects that admitted checks are counted once, and checks of unknown outcome at most once. */
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

/** The checks that began between two marks. */
export function checksFrom(report: LoadReport, from: string, to?: string): Check[] {
  const fromMs = phaseOf(report, from).startedMs
  const toMs = to === undefined ? Number.POSITIVE_INFINITY : phaseOf(report, to).startedMs
  return allChecks(report).filter(({ startedMs }) => startedMs >= fromMs && startedMs < toMs)
}

/**
 * The checks that began and were answered between two marks. A process that was stalled may send a
 * check after the fault has ended, although it began before.
 */
export function checksWithin(report: LoadReport, from: string, to: string): Check[] {
  const endMs = phaseOf(report, to).startedMs
  return checksFrom(report, from, to).filter(({ startedMs, tookMs }) => startedMs + tookMs < endMs)
}

export function durationMs(report: LoadReport, from: string, to: string): number {
  return phaseOf(report, to).startedMs - phaseOf(report, from).startedMs
}

export function allChecks({ processes }: LoadReport): Check[] {
  return processes.flatMap(({ records }) => [...checksOf(records)])
}

/** The longest time from a mark to a process's first decision of the store. */
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

/** The longest time from a mark to an open breaker in a process. */
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

/** True if the store decided. */
export function isOfStore({ outcome, note }: Check): boolean {
  return note === '' && (outcome === 'allowed' || outcome === 'denied')
}

export function isAllowed({ outcome }: Check): boolean {
  return outcome === 'allowed'
}
