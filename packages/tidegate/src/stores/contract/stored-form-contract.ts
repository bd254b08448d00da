/**
 * What lies in Redis under the key of a counter, read as the headers of lua/ describe it, so that
 * it can be compared with what the pure functions hold.
 */

import { expect } from 'vitest'
import type { AlgorithmName } from '../../algorithms/algorithm.ts'
import type { Holds } from '../../algorithms/holds.ts'
import { logEntries, type SlidingLogState } from '../../algorithms/sliding-log.ts'

export interface StoredForm {
  /** For a log: the sum of the costs at each time, and last the sum of all. */
  readonly numbers: readonly number[]
  /** [id, units, ttlMs, expiresAt], sorted, because those that expire together have no order. */
  readonly holds: readonly Row[]
}

type Row = readonly [id: string, units: number, ttlMs: number, expiresAt: number]

/** Reads the whole of a key: GET, ZRANGE with scores where there are holds, LRANGE of a log. */
export function storedForm(algorithm: AlgorithmName, reply: unknown): StoredForm {
  if (algorithm === 'slidingLog') return readList(reply as Buffer[])
  if (Array.isArray(reply)) return readSet(algorithm, reply as Buffer[])
  return { numbers: readState(algorithm, reply as Buffer), holds: [] }
}

/** What must be stored for this. */
export function expectedForm(
  algorithm: AlgorithmName,
  state: object | undefined,
  holds: Holds,
): StoredForm {
  const isLog = algorithm === 'slidingLog'
  const numbers = isLog ? logNumbers(state as SlidingLogState) : Object.values(state ?? {})
  const rows = holds.map(({ id, units, ttlMs, expiresAt }): Row => [id, units, ttlMs, expiresAt])
  return { numbers, holds: rows.sort(byText) }
}

/** How the costs are cut into entries does not matter. */
function logNumbers(state: SlidingLogState | undefined): number[] {
  return state === undefined ? [0] : sumByTime(logEntries(state), state.total)
}

function sumByTime(entries: readonly { time: number; cost: number }[], total: number): number[] {
  const sums = new Map<number, number>()
  for (const { time, cost } of entries) sums.set(time, (sums.get(time) ?? 0) + cost)
  return [...[...sums].flat(), total]
}

function byText(one: Row, other: Row): number {
  return JSON.stringify(one) < JSON.stringify(other) ? -1 : 1
}

function readState(algorithm: AlgorithmName, value: Buffer): number[] {
  if (value.length === 0 || algorithm === 'concurrency') return []
  if (algorithm !== 'tokenBucket') {
    const doubles = algorithm === 'fixedWindow' ? 2 : 3
    expect(value).toHaveLength(doubles * 8)
    return Array.from({ length: doubles }, (_, at) => value.readDoubleLE(at * 8))
  }
  const text = value.toString('latin1')
  const long = /^(\d+):(\d+):(\d+)$/.exec(text)
  if (long !== null) return long.slice(1).map(Number)
  expect(text).toMatch(/^[1-9]\d{13,18}$/)
  return [Number(text.slice(0, -13)), Number(text.slice(-13)), 0]
}

function readList(list: readonly Buffer[]): StoredForm {
  const last = list.at(-1) as Buffer
  const isSum = /^\d+$/.test(last.toString('latin1'))
  const pages = isSum ? 0 : last.readUIntLE(44, 2)
  const entries = list.slice(0, list.length - 1 - pages).map((one) => {
    const { time, units } = readStamp(one)
    return { time, cost: units }
  })
  if (isSum) return { numbers: sumByTime(entries, Number(last.toString())), holds: [] }
  expect(last.toString('latin1', 0, 1)).toBe('h')
  const holds = list.slice(list.length - 1 - pages, -1).flatMap(readPage)
  expectHead(last.subarray(1), holds)
  return { numbers: sumByTime(entries, last.readDoubleLE(36)), holds: holds.sort(byText) }
}

function readPage(page: Buffer): Row[] {
  expect(page.length % 61).toBe(0)
  expect(page.length / 61, 'rows of a page').toBeLessThanOrEqual(32)
  const rows = Array.from({ length: page.length / 61 }, (_, at) => page.subarray(at * 61))
  return rows.map((row) => {
    expect(row[0]).toBe(10)
    const [units, ttlMs, expiresAt] = [37, 45, 53].map((at) => row.readDoubleLE(at))
    const id = row.toString('latin1', 1, 37).trimEnd()
    return [id, units as number, ttlMs as number, expiresAt as number]
  })
}

function readSet(algorithm: AlgorithmName, reply: readonly Buffer[]): StoredForm {
  const last = reply.at(-2) as Buffer
  expect(reply.at(-1)?.toString()).toBe('inf')
  const ttlMs = last.readUIntLE(16, 5)
  const holds: Row[] = []
  for (let at = 0; at < reply.length - 2; at += 2) {
    const [member, score] = reply.slice(at, at + 2) as [Buffer, Buffer]
    const { time, units } = readStamp(score)
    const id = member.toString('latin1')
    if (units < 4095) {
      holds.push([id, units, ttlMs, time])
      continue
    }
    const [second, sameScore] = reply.slice(at + 2, at + 4) as [Buffer, Buffer]
    expect(sameScore).toEqual(score)
    expect(second.toString('latin1', 0, second.length - 16)).toBe(`${id}\0`)
    const [many, ownTtlMs] = [16, 8].map((bytes) => second.readDoubleLE(second.length - bytes))
    holds.push([id, many as number, ownTtlMs as number, time])
    at += 2
  }
  expectHead(last, holds)
  return { numbers: readState(algorithm, last.subarray(35)), holds: holds.sort(byText) }
}

/** What is kept of all holds together, so that not all have to be read. They come in order. */
function expectHead(head: Buffer, holds: readonly Row[]): void {
  const expiries = holds.map(([, , , expiresAt]) => expiresAt)
  expect(expiries, 'in order').toEqual(expiries.toSorted((one, other) => one - other))
  const grants = holds.map(([, , ttlMs, expiresAt]) => expiresAt - ttlMs)
  expect(head.readDoubleLE(0), 'units').toBe(holds.reduce((sum, [, units]) => sum + units, 0))
  expect(head.readUIntLE(8, 2), 'number').toBe(holds.length)
  expect(head.readUIntLE(10, 6), 'time of the latest').toBeGreaterThanOrEqual(Math.max(...grants))
  expect(head.readUIntLE(21, 6), 'before the first expiry').toBeLessThanOrEqual(expiries[0] ?? 0)
  const leases = holds.filter(([id]) => id.startsWith('!'))
  expect(head.readUIntLE(33, 2), 'leases').toBe(leases.length)
  // A lease matters for longer than it lasts.
  const last = expect(head.readUIntLE(27, 6), 'when the last stops to matter')
  if (leases.length === 0) last.toBe(expiries.at(-1))
  else last.toBeGreaterThanOrEqual(expiries.at(-1) ?? 0)
}

function readStamp(text: Buffer) {
  const number = Number(text.toString('latin1'))
  const units = number % 4096
  return { time: (number - units) / 4096 + Date.UTC(2020, 0), units }
}
