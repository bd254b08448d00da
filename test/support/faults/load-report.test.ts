import { describe, expect, test } from 'vitest'
import { checksOf, LoadRecorder } from './load-records.ts'
import { loadReport } from './load-report.ts'
import type { LoadSample } from './load-worker.ts'

const quiet: LoadSample = {
  atMs: 0,
  rssBytes: 50,
  heapBytes: 20,
  loopDelayMs: 1,
  pending: 0,
  made: 0,
  allowed: 0,
  denied: 0,
  rejected: 0,
  degraded: 0,
  nodes: 1,
}

describe('loadReport', () => {
  test('counts the checks of a phase by what became of them', () => {
    const recorder = new LoadRecorder()
    for (const startedMs of [100, 110, 120]) {
      recorder.settle(recorder.begin(startedMs, 0), startedMs + 2, 'allowed', '')
    }
    recorder.settle(recorder.begin(200, 1), 215, 'allowed', 'timeout/open')
    recorder.settle(recorder.begin(210, 2), 211, 'denied', 'timeout/open')
    recorder.settle(recorder.begin(220, 3), 225, 'rejected', 'no connection')
    recorder.begin(230, 4)
    const samples = [
      { ...quiet, atMs: 150 },
      { ...quiet, atMs: 250, loopDelayMs: 9, pending: 3, rssBytes: 70 },
    ]
    const phases = [
      { name: 'start', startedMs: 100 },
      { name: 'killed', startedMs: 200 },
    ]
    const report = loadReport([{ records: recorder.records(), samples }], phases)
    expect(report.pending).toBe(1)
    expect(report.phases).toMatchObject([
      { name: 'start', made: 3, allowed: 3, denied: 0, rejected: 0, pending: 0, degraded: {} },
      { name: 'killed', made: 4, allowed: 1, denied: 1, rejected: 1, pending: 1 },
    ])
    expect(report.phases).toMatchObject([
      { errors: {}, p50Ms: 2, p99Ms: 2, maxMs: 2, loopDelayMaxMs: 1, rssBytesMax: 50 },
      { errors: { 'no connection': 1 }, degraded: { 'timeout/open': 2 }, p50Ms: 5, maxMs: 15 },
    ])
    expect(report.phases[1]).toMatchObject({ loopDelayMaxMs: 9, pendingMax: 3, rssBytesMax: 70 })
  })

  test('has the smallest value that 99 % or 99.9 % are not above', () => {
    const recorder = new LoadRecorder()
    for (let ms = 1; ms <= 1000; ms += 1) recorder.settle(recorder.begin(0, 0), ms, 'allowed', '')
    const processes = [{ records: recorder.records(), samples: [] }]
    const { phases } = loadReport(processes, [{ name: 'start', startedMs: 0 }])
    expect(phases).toMatchObject([{ p50Ms: 500, p99Ms: 990, p999Ms: 999, maxMs: 1000 }])
  })
})

test('late are those that had no answer when it was to be there', () => {
  const recorder = new LoadRecorder()
  const [early, late, never] = [1, 2, 3].map((key) => recorder.begin(10 * key, key))
  if (early === undefined || late === undefined || never === undefined) throw new Error('three')
  recorder.settle(early, 24, 'allowed', '')
  for (const row of [early, late, never]) recorder.expect(row)
  recorder.settle(late, 55, 'allowed', '')
  const processes = [{ records: recorder.records(), samples: [] }]
  const { phases } = loadReport(processes, [{ name: 'start', startedMs: 0 }])
  expect(phases).toMatchObject([{ made: 3, pending: 1, late: 2 }])
  const isLate = [...checksOf(recorder.records())].map((check) => check.isLate)
  expect(isLate).toEqual([false, true, true])
})

test('records many different messages without end, the later ones as one', () => {
  const recorder = new LoadRecorder()
  for (let index = 0; index < 3000; index += 1) {
    recorder.settle(recorder.begin(0, 0), 1, 'rejected', `port ${index}`)
  }
  const { notes } = recorder.records()
  expect(notes.length).toBeLessThan(1100)
  expect([...checksOf(recorder.records())].at(-1)?.note).toBe('other')
})
