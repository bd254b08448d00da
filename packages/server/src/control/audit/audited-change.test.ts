import { expect, test } from 'vitest'
import type { KeyValueStore } from '../key-value.ts'
import { openLocalKeyValue } from '../local-key-value.ts'
import { AUDIT_HEAD, auditKey, auditPart } from './audit-chain.ts'
import { type AuditEntry, systemActor } from './audit-record.ts'
import { AuditedChanges } from './audited-change.ts'
import { verifyAudit } from './read-audit.ts'

function entryOf(action: string): AuditEntry {
  return { actor: systemActor, action, target: { type: 'test' }, result: 'done' }
}

async function recordsOf(store: KeyValueStore): Promise<Record<string, unknown>[]> {
  const { entries } = await store.range('audit/')
  return entries.map(({ value }) => JSON.parse(value))
}

test('a change and its record are written in one transaction', async () => {
  const store = await openLocalKeyValue()
  const changes = new AuditedChanges(store)
  const { revision, record } = await changes.change(async () => ({
    conditions: [],
    writes: [{ key: 'live/x', value: '1' }],
    entry: entryOf('x.set'),
  }))
  expect(record).toMatchObject({ id: 1, action: 'x.set', prev: '' })
  const { entries } = await store.range('')
  expect(entries.map(({ key }) => key).sort()).toEqual([auditKey(1), AUDIT_HEAD, 'live/x'].sort())
  expect(new Set(entries.map((entry) => entry.revision))).toEqual(new Set([revision]))
})

test('changes of several writers are all made, once each, in one unbroken chain', async () => {
  const store = await openLocalKeyValue()
  const writers = Array.from({ length: 4 }, () => new AuditedChanges(store))
  const add = (changes: AuditedChanges) =>
    changes.change(async () => {
      const { entries } = await store.range('live/count')
      const [known] = entries
      const count = Number(known?.value ?? 0)
      return {
        conditions: [{ key: 'live/count', revision: known?.revision ?? 0n }],
        writes: [{ key: 'live/count', value: String(count + 1) }],
        entry: entryOf('count.add'),
      }
    })
  await Promise.all(writers.flatMap((one) => Array.from({ length: 50 }, () => add(one))))
  const { entries } = await store.range('live/count')
  expect(entries[0]?.value).toBe('200')
  const ids = (await recordsOf(store)).map(({ id }) => id)
  expect(ids).toEqual(Array.from({ length: 200 }, (_, at) => at + 1))
  expect(await verifyAudit(store)).toEqual({ ok: true, records: 200, first: 1, last: 200 })
})

test('a plan that throws changes nothing, and the next change goes on', async () => {
  const store = await openLocalKeyValue()
  const changes = new AuditedChanges(store)
  const failing = changes.change(() => Promise.reject(new Error('412')))
  await expect(failing).rejects.toThrow('412')
  await changes.note(entryOf('x'))
  expect((await recordsOf(store)).length).toBe(1)
})

test('a record of a lost race is not written', async () => {
  const store = await openLocalKeyValue()
  const one = await auditPart(store, entryOf('one'))
  const other = await auditPart(store, entryOf('other'))
  expect((await store.transact(one.conditions, one.writes)).ok).toBe(true)
  expect((await store.transact(other.conditions, other.writes)).ok).toBe(false)
})

test('large values and reasons are cut, so that the record can be written', async () => {
  const store = await openLocalKeyValue()
  const text = 'x'.repeat(2_000_000)
  const entry = { ...entryOf('x'), reason: text, before: { text }, after: { limit: 1 } }
  const record = await new AuditedChanges(store).note(entry)
  expect(record.reason?.length).toBe(1_024)
  expect(record).toMatchObject({ before: { leftOut: '2000011 characters' }, after: { limit: 1 } })
})
