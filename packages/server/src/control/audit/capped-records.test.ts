import { expect, test } from 'vitest'
import { openLocalKeyValue } from '../local-key-value.ts'
import { type AuditEntry, systemActor } from './audit-record.ts'
import { AuditedChanges } from './audited-change.ts'
import { CappedRecords } from './capped-records.ts'

test('10 a minute are written, and the next one counts those that were left out', async () => {
  const store = await openLocalKeyValue()
  const changes = new AuditedChanges(store)
  const errors: unknown[] = []
  const capped = new CappedRecords(changes, (error) => errors.push(error))
  const target = { type: 'session' }
  const entry: AuditEntry = { actor: systemActor, action: 'login', target, result: 'denied' }
  for (let at = 0; at < 25; at++) capped.note(entry, 60_000)
  capped.note(entry, 120_000)
  await changes.note(entry)
  const { entries } = await store.range('audit/')
  const leftOut = entries.map(({ value }) => (JSON.parse(value) as AuditEntry).leftOut)
  expect(leftOut).toEqual([...Array(10).fill(undefined), 15, undefined])
  expect(errors).toEqual([])
})
