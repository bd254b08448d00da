/**
 * A long audit. Its chain is made in memory, as a node makes it, and copied in large transactions,
 * because 10,000 transactions would take longer than the test.
 */

import { AUDIT_HEAD, AUDIT_PREFIX } from '../../../packages/server/src/control/audit/audit-chain.ts'
import { systemActor } from '../../../packages/server/src/control/audit/audit-record.ts'
import { AuditedChanges } from '../../../packages/server/src/control/audit/audited-change.ts'
import type { KeyValueStore } from '../../../packages/server/src/control/key-value.ts'
import { openLocalKeyValue } from '../../../packages/server/src/control/local-key-value.ts'

const WRITES_AT_ONCE = 90

export async function writeAuditRecords(store: KeyValueStore, count: number): Promise<void> {
  const local = await openLocalKeyValue()
  const changes = new AuditedChanges(local)
  for (let at = 1; at <= count; at++) {
    await changes.note({
      actor: systemActor,
      action: 'override.set',
      target: { type: 'entry', id: String(at) },
      reason: `reason ${at}`,
      result: 'done',
    })
  }
  const { entries } = await local.range(AUDIT_PREFIX)
  for (let at = 0; at < entries.length; at += WRITES_AT_ONCE) {
    const part = entries.slice(at, at + WRITES_AT_ONCE)
    await store.transact(
      [],
      part.map(({ key, value }) => ({ key, value })),
    )
  }
  const head = (await local.range(AUDIT_HEAD)).entries.map(({ key, value }) => ({ key, value }))
  await store.transact([], head)
  await local.close()
}
