/** A process that publishes: ENDPOINTS, PREFIX, the number of versions, and its name. */

import type { AuditWriter } from '../../../packages/server/src/control/audit-writer.ts'
import { openVersions, policyOf } from './fleet-node.ts'

const [endpoints = '', prefix = '', count = '0', by = ''] = process.argv.slice(2)

/** A chain that every change appends to, as an audit does. */
const audit: AuditWriter = async (kv) => {
  const { entries } = await kv.range('audit-head')
  const length = Number(entries[0]?.value ?? 0) + 1
  return {
    conditions: [{ key: 'audit-head', revision: entries[0]?.revision ?? 0n }],
    writes: [{ key: 'audit-head', value: String(length) }],
  }
}

const { versions, close } = openVersions({ endpoints: endpoints.split(','), prefix })
const publishing = Array.from({ length: Number(count) }, (_, at) =>
  versions.publish(policyOf(at + 1), { by, why: `number ${at}`, program: 'test', audit }),
)
const published = await Promise.all(publishing)
console.log(JSON.stringify(published.map(({ version }) => version)))
await close()
