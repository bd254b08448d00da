/** The state of this node and of the others, and explanations of requests. */

import { z } from 'zod'
import {
  explainResponse,
  nodeReport,
  nodesResponse,
  statusResponse,
} from '../responses/status-responses.ts'
import { ok, type Route, route, scopeOf } from '../route.ts'

const NODES_PREFIX = 'nodes/'
const NODES_MAX = 1_000

const text = (lengthMax: number) => z.string().max(lengthMax)

const explainBody = z.strictObject({
  method: text(32).default('GET'),
  path: text(4_096).default('/'),
  ip: text(64).default('127.0.0.1').describe("The client's address."),
  headers: z.record(text(128), text(8_192)).default({}),
  identity: z
    .strictObject({
      user: text(256).optional(),
      organisation: text(256).optional(),
      tier: text(64).optional(),
    })
    .default({}),
  domain: text(256)
    .optional()
    .describe("For a rate limit service with Envoy's files, instead of the fields above."),
  descriptors: z
    .array(z.array(text(1_024)).min(1).max(16))
    .min(1)
    .max(16)
    .optional()
    .describe('Descriptors of the request; an entry is `key=value`.'),
})

export const statusRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/status',
    role: 'read',
    summary: 'The state of this node',
    response: statusResponse,
    handle: async ({ context }) => ok({ ...context.status(), ...scopeOf(context) }),
  }),
  route({
    method: 'GET',
    path: '/v1/nodes',
    role: 'read',
    summary: 'The nodes that report to the control store',
    response: nodesResponse,
    async handle({ context }) {
      const { entries } = await context.control.range(NODES_PREFIX, { entriesMax: NODES_MAX })
      const nodes = entries.map(({ key, value }) => {
        return { id: key.slice(NODES_PREFIX.length), ...reportOf(value) }
      })
      return ok({ nodes, ...scopeOf(context) })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/explain',
    role: 'read',
    action: 'explain.read',
    summary: 'The outcome of a request: which rules win, which lose, and why',
    response: explainResponse,
    body: explainBody,
    async handle({ body, context, author }) {
      const identity = definedOf(body.identity)
      const explained = await context.explain({
        domain: undefined,
        descriptors: undefined,
        ...body,
        identity,
      })
      const target = { type: 'request' }
      await context.changes.note({ ...author, action: 'explain.read', target, result: 'done' })
      return ok({ ...explained, ...scopeOf(context) })
    },
  }),
]

/** A report of another program or version may have any form. */
function reportOf(value: string): object {
  try {
    return nodeReport.parse(JSON.parse(value))
  } catch {
    return { state: 'unreadable' }
  }
}

function definedOf(identity: Readonly<Record<string, string | undefined>>) {
  return Object.fromEntries(
    Object.entries(identity).filter(([, value]) => value !== undefined),
  ) as Readonly<Record<string, string>>
}
