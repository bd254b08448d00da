import { expect, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import type { AuditRecord } from '../audit/audit-record.ts'
import { AuditedChanges } from '../audit/audited-change.ts'
import { latestRecords, verifyAudit } from '../audit/read-audit.ts'
import type { KeyValueStore } from '../key-value.ts'
import { openLocalKeyValue } from '../local-key-value.ts'
import { BLOCKS_MAX, BLOCKS_PREFIX, blockKey, LIVE_PREFIX } from './entries.ts'
import { LiveSweeper } from './live-sweeper.ts'
import { LiveEntryReader } from './read-live-entries.ts'

const NOW_MS = Date.parse('2026-06-01T00:00:00Z')

function write(at: number, expires: string | null) {
  const target = { kind: 'user', value: `user-${at}` } as const
  const origin = { by: 'test', at: '2026-01-01T00:00:00Z', why: 'a test', expires }
  return { key: blockKey(target), value: JSON.stringify({ ...target, answer: 403, ...origin }) }
}

async function fill(store: KeyValueStore, count: number, expires: string | null, from = 0) {
  for (let at = from; at < from + count; at += 100) {
    const length = Math.min(100, from + count - at)
    await store.transact(
      [],
      Array.from({ length }, (_, more) => write(at + more, expires)),
    )
  }
}

async function node(store: KeyValueStore) {
  const reader = new LiveEntryReader()
  let isRead = false
  store.follow(LIVE_PREFIX, {
    onChange(snapshot) {
      reader.read(snapshot)
      isRead = true
    },
    onContact: () => undefined,
  })
  await until('the entries are read', () => isRead)
  return new LiveSweeper(reader, new AuditedChanges(store))
}

const ended = '2026-05-01T00:00:00Z'

const blocksOf = async (store: KeyValueStore) => (await store.range(BLOCKS_PREFIX)).entries.length

test('removes entries that have ended and no others, with a record', async () => {
  const store = await openLocalKeyValue()
  await fill(store, 200, ended)
  await fill(store, 3, '2026-07-01T00:00:00Z', 200)
  await fill(store, 2, null, 203)
  const sweeper = await node(store)
  expect(await sweeper.sweep(NOW_MS)).toBe(200)
  expect(await blocksOf(store)).toBe(5)
  const records: AuditRecord[] = []
  const found = latestRecords(store, { action: 'live.sweep' })
  for await (const record of found) records.push(record)
  expect(records.map(({ after }) => after)).toEqual([
    { removed: 20 },
    { removed: 90 },
    { removed: 90 },
  ])
  expect(records[0]).toMatchObject({ actor: { kind: 'system' }, result: 'done' })
  expect(await verifyAudit(store)).toMatchObject({ ok: true })
  expect(await sweeper.sweep(NOW_MS)).toBe(0)
})

test('bounds the work of a sweep', async () => {
  const store = await openLocalKeyValue()
  await fill(store, 1_000, ended)
  const sweeper = await node(store)
  expect(await sweeper.sweep(NOW_MS)).toBe(900)
  expect(await sweeper.sweep(NOW_MS)).toBe(100)
})

test('by two nodes removes each entry once', async () => {
  const store = await openLocalKeyValue()
  await fill(store, 150, ended)
  const nodes = [await node(store), await node(store)]
  const counts = await Promise.all(nodes.map((one) => one.sweep(NOW_MS)))
  expect((counts[0] ?? 0) + (counts[1] ?? 0)).toBe(150)
  expect(await blocksOf(store)).toBe(0)
  expect(await verifyAudit(store)).toMatchObject({ ok: true })
})

test('leaves an entry that was set again, if the node has not seen it yet', async () => {
  const store = await openLocalKeyValue()
  const reader = new LiveEntryReader()
  await fill(store, 5, ended)
  reader.read(await store.range(LIVE_PREFIX))
  await fill(store, 1, null, 3)
  // The node learns of other changes only after its first attempt.
  const lagging: KeyValueStore = {
    scope: 'fleet',
    description: 'a store with a late watch',
    range: (prefix, options) => store.range(prefix, options),
    async transact(conditions, writes) {
      const result = await store.transact(conditions, writes)
      reader.read(await store.range(LIVE_PREFIX))
      return result
    },
    follow: (prefix, listener) => store.follow(prefix, listener),
    close: () => store.close(),
  }
  const sweeper = new LiveSweeper(reader, new AuditedChanges(lagging))
  expect(await sweeper.sweep(NOW_MS)).toBe(4)
  const { entries } = await store.range(BLOCKS_PREFIX)
  expect(entries.map(({ key }) => key)).toEqual([write(3, null).key])
})

test('makes room if entries that have ended take it', async () => {
  const store = await openLocalKeyValue()
  await fill(store, BLOCKS_MAX - 1, null)
  await fill(store, 1, ended, BLOCKS_MAX)
  const sweeper = await node(store)
  expect(await sweeper.hasRoom(write(BLOCKS_MAX + 1, null).key)).toBe(true)
  expect(await blocksOf(store)).toBe(BLOCKS_MAX - 1)
  await fill(store, 1, null, BLOCKS_MAX)
  expect(await sweeper.hasRoom(write(BLOCKS_MAX + 1, null).key)).toBe(false)
  expect(await sweeper.hasRoom(write(1, null).key)).toBe(true)
})
