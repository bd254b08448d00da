import { expect, test } from 'vitest'
import { openLocalKeyValue } from '../local-key-value.ts'
import { AUDIT_HEAD, auditKey } from './audit-chain.ts'
import { type Actor, type AuditEntry, systemActor } from './audit-record.ts'
import { AuditedChanges } from './audited-change.ts'
import { type AuditFilter, latestRecords, verifyAudit } from './read-audit.ts'

const ann: Actor = { kind: 'token', id: 'tok1', name: 'ann', role: 'operate' }

async function filled(count: number) {
  const store = await openLocalKeyValue()
  const changes = new AuditedChanges(store)
  for (let at = 1; at <= count; at++) {
    const isBlock = at % 2 === 0
    const entry: AuditEntry = {
      actor: isBlock ? ann : systemActor,
      action: isBlock ? 'block.set' : 'override.set',
      target: isBlock ? { type: 'block', id: `b${at}` } : { type: 'override', limit: 'api' },
      result: at % 3 === 0 ? 'refused' : 'done',
      reason: `change ${at}`,
    }
    await changes.note(entry)
  }
  const ids = async (filter?: AuditFilter) => {
    const found: number[] = []
    for await (const { id } of latestRecords(store, filter)) found.push(id)
    return found
  }
  return { store, ids }
}

test('records come latest first, and can be filtered', async () => {
  const { ids, store } = await filled(6)
  expect(await ids()).toEqual([6, 5, 4, 3, 2, 1])
  expect(await ids({ actor: 'ann' })).toEqual([6, 4, 2])
  expect(await ids({ action: 'override' })).toEqual([5, 3, 1])
  expect(await ids({ action: 'over' })).toEqual([])
  expect(await ids({ target: 'api' })).toEqual([5, 3, 1])
  expect(await ids({ target: 'b4', actor: 'tok1' })).toEqual([4])
  expect(await ids({ result: 'refused' })).toEqual([6, 3])
  expect(await ids({ since: Date.now() + 60_000 })).toEqual([])
  expect(await ids({ until: Date.now() + 60_000 })).toHaveLength(6)
  const page: number[] = []
  for await (const { id } of latestRecords(store, {}, 4)) page.push(id)
  expect(page).toEqual([3, 2, 1])
})

test('more records than a page are read completely', async () => {
  const { ids, store } = await filled(1_100)
  expect(await ids()).toEqual(Array.from({ length: 1_100 }, (_, at) => 1_100 - at))
  expect(await verifyAudit(store)).toEqual({ ok: true, records: 1_100, first: 1, last: 1_100 })
})

test('an empty audit is whole', async () => {
  const { store, ids } = await filled(0)
  expect(await verifyAudit(store)).toEqual({ ok: true, records: 0, first: 0, last: 0 })
  expect(await ids()).toEqual([])
})

test.each<[string, (key: (id: number) => string) => [string, string | undefined], object]>([
  ['a removed record', (key) => [key(3), undefined], { at: 4, problem: /3 to 3 are missing/ }],
  ['a removed first record', (key) => [key(1), undefined], { at: 2, problem: /before it are/ }],
  ['a removed last record', (key) => [key(5), undefined], { at: 5, problem: /is missing/ }],
  ['a text that is not a record', (key) => [key(3), '{}'], { at: 3, problem: /not a record/ }],
])('%s shows', async (_, damage, expected) => {
  const { store } = await filled(5)
  const [key, value] = damage(auditKey)
  await store.transact([], [{ key, value }])
  const { at, problem } = expected as { at: number; problem: RegExp }
  const verdict = await verifyAudit(store)
  expect(verdict).toMatchObject({ ok: false, at })
  expect(verdict).toHaveProperty('problem', expect.stringMatching(problem))
})

test.each([2, 5])('a changed reason of record %i of 5 shows', async (id) => {
  const { store } = await filled(5)
  const { entries } = await store.range(auditKey(id))
  const value = entries[0]?.value.replace('change', 'chance')
  await store.transact([], [{ key: auditKey(id), value }])
  expect(await verifyAudit(store)).toMatchObject({ ok: false })
})

test('a head that is not readable stops changes instead of beginning a new chain', async () => {
  const { store } = await filled(2)
  await store.transact([], [{ key: AUDIT_HEAD, value: 'x' }])
  const entry = { actor: ann, action: 'x', target: { type: 'x' }, result: 'done' } as const
  await expect(new AuditedChanges(store).note(entry)).rejects.toThrow('not a head')
})
