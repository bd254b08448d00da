/** Nodes of one fleet with the admin API and the decision API, in this process. */

import {
  type Answer,
  BOOTSTRAP,
  startAdminService,
  type TestService,
} from '../../../packages/server/src/admin/admin-contract.ts'
import { apiPolicy } from './api-policy.ts'
import type { FleetOptions } from './fleet-node.ts'

export interface AdminNode extends TestService {
  /** Makes a decision for this caller by the limit `api`, without charging it. */
  check(identity: object): Promise<{ readonly outcome: string; readonly limit: number | undefined }>
  /** Publishes over the version with this number. */
  publish(text: string, seen: number, why?: string): Promise<Answer>
}

/** Stopped at the end of the test. */
export async function startAdminNode(node: string, options: FleetOptions): Promise<AdminNode> {
  const { endpoints, prefix } = options
  const policy = {
    control: { node, etcd: { endpoints, prefix }, ...options.control },
    decisionApi: { listen: { port: 0 }, token: { env: 'ADMIN_TOKEN' } },
    idempotency: {},
  }
  const sections = Object.entries(policy).map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
  const service = await startAdminService({ policy: `${sections.join('\n')}\n${apiPolicy(2)}` })
  const url = `http://127.0.0.1:${service.service.decisionApi?.address.port}/v1/check`
  const headers = { authorization: `Bearer ${BOOTSTRAP}`, 'content-type': 'application/json' }
  return {
    ...service,
    async check(identity) {
      const body = JSON.stringify({ request: { identity }, peek: true })
      const response = await fetch(url, { method: 'POST', headers, body })
      const { outcome, decision } = (await response.json()) as {
        readonly outcome: string
        readonly decision: { readonly limit: number } | null
      }
      return { outcome, limit: decision?.limit }
    },
    publish: (text, seen, why = 'a test') =>
      service.call('PUT', '/v1/policy', {
        body: { text, why },
        headers: { 'If-Match': `"${seen}"` },
      }),
  }
}
