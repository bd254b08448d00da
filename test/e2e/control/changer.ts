/**
 * A client process that changes a fleet: ENDPOINTS, PREFIX, the number of changes, and its name.
 * Half of the changes are versions of the policy, the others overrides, at the same time.
 */

import { AuditedChanges } from '../../../packages/server/src/control/audit/audited-change.ts'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { overrideKey } from '../../../packages/server/src/control/live/entries.ts'
import { AuditedVersions } from '../../../packages/server/src/control/versions/audited-versions.ts'
import { readRemotePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import { apiPolicy } from './api-policy.ts'

const [endpoints = '', prefix = '', count = '0', name = ''] = process.argv.slice(2)
const store = new EtcdKeyValue({ endpoints: endpoints.split(','), prefix })
const changes = new AuditedChanges(store)
const local = { text: apiPolicy(1), file: 'local' }
const versions = new AuditedVersions({
  store,
  changes,
  program: 'test',
  async check(text) {
    const read = readRemotePolicy(local, { text, file: 'document' })
    return read.ok ? [] : read.problems.map(({ message }) => message)
  },
})
const actor = { kind: 'token', id: name, name, role: 'admin' } as const
const names = Array.from({ length: Number(count) / 2 }, (_, at) => `${name}-${at}`)
let conflicts = 0
await Promise.all([publishAll(), overrideAll()])
console.log(JSON.stringify({ conflicts }))
await store.close()

async function publishAll(): Promise<void> {
  for (const [at, why] of names.entries()) {
    let expected = 0
    for (;;) {
      const result = await versions.publish({ actor, why, text: apiPolicy(at + 1), expected })
      if (result.ok) break
      if (result.reason !== 'conflict') throw new Error(`${why}: ${result.reason}`)
      expected = result.current?.version ?? 0
      conflicts += 1
    }
  }
}

async function overrideAll(): Promise<void> {
  for (const why of names) {
    const key = overrideKey('api', [why])
    const at = new Date().toISOString()
    const value = { limit: 'api', key: [why], set: { limit: 7 }, by: name, at, why, expires: null }
    const target = { type: 'override', limit: 'api' }
    await changes.change(async () => ({
      conditions: [{ key, revision: 0n }],
      writes: [{ key, value: JSON.stringify(value) }],
      entry: { actor, action: 'override.set', target, reason: why, result: 'done' },
    }))
  }
}
