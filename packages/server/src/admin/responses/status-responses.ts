/** Responses about the state of a node, the nodes of a fleet, and explanations. */

import { z } from 'zod'
import { nodeStates } from '../../control/nodes/node-report.ts'
import { numberSources } from '../../limits/explain.ts'
import { blockKinds, switchStates } from '../../limits/live/live-entries.ts'
import { isoTime, limitNumbers, scopeFields } from './common.ts'

const count = z.int().min(0)
const byPriority = z.strictObject({
  sheddable: z.number(),
  normal: z.number(),
  critical: z.number(),
})

/** The policy in force. A service with Envoy's files has domains, other services the rest. */
export const livePolicy = z.strictObject({
  version: z.string().describe('The version in its source, such as `v42-9f86d081884c`.'),
  limits: count,
  loadedAt: isoTime.optional(),
  enabled: z.boolean().optional(),
  domains: count.optional(),
  refused: z.array(z.string()).optional().describe('Problems of a later policy, a line for each.'),
})

const target = z.strictObject({
  target: z.string(),
  state: z.enum(['healthy', 'ejected', 'unhealthy']),
  ejectedUntil: isoTime.optional(),
  failuresInRow: count,
  lastFailure: z.strictObject({ reason: z.string(), at: isoTime }).optional(),
  inFlight: count,
  waiting: count,
})

const controlStatus = z.strictObject({
  kind: z.string().describe('The store of changes, for people.'),
  scope: scopeFields.scope,
  connected: z.boolean().optional(),
  node: z.string().optional(),
  region: z.string().optional(),
  published: count.optional().describe('The version that is published for this node.'),
  live: count.optional().describe('The version that is live; 0 for the local file.'),
  revision: z.string().optional(),
  overrides: count,
  blocks: count,
  problems: z.array(z.string()).optional().describe('Entries that are left out, and why.'),
})

const regionsStatus = z.strictObject({
  self: z.string(),
  peers: z.array(
    z.strictObject({
      region: z.string(),
      up: z.boolean(),
      problem: z.string().optional(),
      roundTripMs: z.number().optional(),
      clockOffsetMs: z.number().optional(),
    }),
  ),
  forgotten: z.array(z.string()).optional().describe('Regions that operators have given up.'),
  leasedKeys: count.describe('Keys with units that are leased from other regions.'),
  leasedUnits: count,
  shared: z
    .strictObject({
      isExchanger: z.boolean().describe('Whether this node exchanges the counts of its region.'),
      keys: count.describe('Keys whose counts it exchanges.'),
      silent: z.array(z.string()).describe('Regions that it does not wait for.'),
      failures: count.describe('Reports and exchanges that failed.'),
    })
    .optional()
    .describe('Only if a limit has the mode `shared`.'),
})

export const statusResponse = z.strictObject({
  program: z.string().describe('The version of the program.'),
  startedAt: isoTime,
  ready: z.boolean(),
  policy: livePolicy,
  upstreams: z.record(z.string(), z.array(target)).optional(),
  store: z.strictObject({ kind: z.string(), connected: z.boolean() }),
  regions: regionsStatus.optional().describe('Only if the policy has regions.'),
  overload: z
    .strictObject({
      delayMs: z.number(),
      requests: count,
      sheddingShare: byPriority,
      shed: byPriority,
    })
    .optional(),
  control: controlStatus.optional(),
  ...scopeFields,
})

/** A report of a node. The store is not trusted, so that each one is checked. */
export const nodeReport = z.strictObject({
  node: z.string(),
  region: z.string().optional(),
  version: count.describe('The version that is live on the node; 0 for its local file.'),
  hash: z.string(),
  state: z.enum(nodeStates),
  problems: z.array(z.string()),
  program: z.string(),
  startedAt: isoTime,
  appliedAt: isoTime,
})

export const nodesResponse = z.strictObject({
  nodes: z.array(
    z.union([
      nodeReport.extend({ id: z.string() }),
      z.strictObject({ id: z.string(), state: z.literal('unreadable') }),
    ]),
  ),
  ...scopeFields,
})

const switchState = {
  limits: z.enum(switchStates),
  blocks: z.enum(['on', 'off']),
}

const untilMs = z.number().nullable().describe('In milliseconds since 1970; null for no end.')

const explainedLimit = z.union([
  z.strictObject({
    name: z.string(),
    mode: z.enum(['enforce', 'shadow', 'off']),
    applies: z.literal(true),
    keyKind: z.string(),
    key: z.string(),
    keyParts: z.array(z.string()),
    keyHash: z.string(),
    within: z.array(z.string()).optional(),
    cost: z.number(),
    limit: limitNumbers,
    source: z.enum(numberSources),
    instead: z.array(z.enum(numberSources)).describe('Origins of numbers that lost.'),
    override: z.string().optional(),
    isFallback: z.boolean(),
  }),
  z.strictObject({
    name: z.string(),
    mode: z.enum(['enforce', 'shadow', 'off']),
    applies: z.literal(false),
    refuses: z.boolean(),
    reason: z.string(),
  }),
])

const explainedRequest = z.strictObject({
  request: z.strictObject({ method: z.string(), path: z.string(), ip: z.string() }),
  verdict: z.strictObject({
    outcome: z.enum(['admitted', 'refused', 'answered']),
    status: z.int().optional(),
    by: z.string().optional(),
    reason: z.string(),
  }),
  route: z.strictObject({ index: z.int().optional(), upstream: z.string() }).optional(),
  switch: z.strictObject({ ...switchState, until: untilMs }),
  block: z
    .strictObject({
      id: z.string(),
      kind: z.enum(blockKinds),
      answer: z.union([z.literal(403), z.literal(429)]),
      until: untilMs,
      instead: z.string(),
    })
    .optional(),
  isEnabled: z.boolean(),
  ip: z.enum(['deny', 'allow']).optional(),
  tier: z.string().optional(),
  limits: z.array(explainedLimit),
  ...scopeFields,
})

const explainedDescriptors = z.strictObject({
  request: z.strictObject({ domain: z.string() }),
  verdict: z.strictObject({ outcome: z.enum(['admitted', 'refused']), reason: z.string() }),
  switch: z.strictObject(switchState),
  descriptors: z.array(
    z.strictObject({
      entries: z.array(z.strictObject({ key: z.string(), value: z.string() })),
      rule: z.string().nullable(),
      block: z.strictObject({ id: z.string(), kind: z.string(), instead: z.string() }).nullable(),
      limit: limitNumbers.nullable(),
      source: z.enum(['live override', 'limit']).nullable(),
      override: z.string().nullable(),
      instead: z.array(z.literal('limit')),
    }),
  ),
  ...scopeFields,
})

/** By a policy, or by Envoy's files. */
export const explainResponse = z.union([explainedRequest, explainedDescriptors])
