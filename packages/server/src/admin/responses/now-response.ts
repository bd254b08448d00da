/** The response of `/v1/now`: the last second of a node, its store, and the fleet. */

import { z } from 'zod'
import type { Snapshot } from '../console/console-types.ts'

const number = z.number()
const numberOrNull = z.number().nullable()
const text = z.string()
const textOrNull = z.string().nullable()

const traffic = z.strictObject({
  atMs: number,
  allowed: number,
  denied: number,
  blocked: number,
  unavailable: number,
  shed: number,
  degraded: number.describe('Decisions without the store; part of the outcomes above.'),
  p50Ms: numberOrNull,
  p99Ms: numberOrNull,
})

const state = z.strictObject({
  program: text,
  startedAt: text,
  isReady: z.boolean(),
  policyVersion: text,
  policyLoadedAt: text,
  isEnabled: z.boolean(),
  limits: number,
  refusedProblems: z.array(text),
  controlKind: text,
  scope: z.enum(['node', 'fleet']),
  isControlConnected: z.boolean().nullable(),
  publishedVersion: numberOrNull,
  liveVersion: numberOrNull,
  loopDelayMs: number,
  requestsInFlight: number,
  sheddingShare: number,
  overrides: number,
  blocks: number,
})

const limit = z.strictObject({
  name: text,
  allowedPerSecond: number,
  deniedPerSecond: number,
  shadowDeniedPerSecond: number,
  asked: number,
  denied: number,
  shadowAsked: number,
  shadowDenied: number,
  used: z.array(number).describe('Decisions by the share in use; the columns of `usedBounds`.'),
})

const rankedKey = z.strictObject({
  limit: text,
  key: text.describe('The key, or its digest for callers that may not see keys.'),
  parts: z.array(text).nullable(),
  kind: text,
  count: number,
  error: number,
  deniedPerSecond: numberOrNull,
  sinceMs: numberOrNull,
  lastMs: numberOrNull,
  retryAfterMs: numberOrNull,
  isShadow: z.boolean(),
})

const top = z.strictObject({
  sinceMs: number,
  refused: z.array(rankedKey),
  asked: z.array(rankedKey),
})

const shard = z.strictObject({
  shard: text,
  breaker: z.enum(['closed', 'open', 'half-open']).nullable(),
  commandsPerSecond: number,
  errorsPerSecond: number,
  p50Ms: numberOrNull,
  p99Ms: numberOrNull,
  chargesPerCommand: numberOrNull,
  connections: numberOrNull,
})

const store = z.strictObject({
  kind: text,
  isConnected: z.boolean(),
  shards: z.array(shard),
  roundTripMs: numberOrNull,
  deadlineMs: numberOrNull,
  waitingCharges: numberOrNull,
  leases: numberOrNull,
  cachedDenials: numberOrNull,
  hottestKeyCalls: numberOrNull,
  processes: numberOrNull,
  memoryBytes: numberOrNull,
  hot: z.array(z.strictObject({ limit: text, key: text, perSecond: number, atMs: number })),
})

const route = z.strictObject({
  route: text,
  perSecond: number,
  limitedPerSecond: number,
  failedPerSecond: number,
  p50Ms: numberOrNull,
  p99Ms: numberOrNull,
})

const target = z.strictObject({
  upstream: text,
  target: text,
  state: text,
  inFlight: numberOrNull,
  waiting: numberOrNull,
})

const regions = z.strictObject({
  self: text,
  peers: z.array(
    z.strictObject({
      region: text,
      isUp: z.boolean(),
      problem: textOrNull.describe('Why it does not answer.'),
      roundTripMs: numberOrNull,
      clockOffsetMs: numberOrNull.describe('How far its clock is ahead.'),
      bytesPerSecond: number,
    }),
  ),
  leasedKeys: number,
  leasedUnits: number,
  limits: z.array(
    z.strictObject({
      name: text,
      mode: text,
      perSecond: z.array(z.strictObject({ by: text, count: number })),
      guarantee: text,
      warnings: z.array(text),
    }),
  ),
})

const keyCount = z.strictObject({ perSecond: number, total: number })

const idempotency = z
  .strictObject({
    executing: number,
    waiting: number,
    executed: keyCount,
    replayed: keyCount,
    conflicts: keyCount,
    refused: keyCount,
  })
  .describe('Requests with idempotency keys; null if the policy has none.')

const node = z.strictObject({
  node: text,
  region: textOrNull,
  version: number,
  state: text,
  problems: z.array(text),
  program: text,
  startedAt: text,
  appliedAt: text,
  isOwn: z.boolean().describe('True for the node that responds.'),
  isCanary: z.boolean(),
  traffic: z
    .strictObject({
      allowedPerSecond: number,
      refusedPerSecond: number,
      degradedPerSecond: number,
      failedPerSecond: number,
      p99Ms: numberOrNull,
    })
    .nullable()
    .describe('Averages of 5 s, which nodes report while a console is open.'),
})

const canary = z.strictObject({ version: number, where: text, until: text })

const change = z.strictObject({
  id: number,
  at: text,
  by: text,
  action: text,
  target: text,
  why: textOrNull,
  result: text,
})

const switched = z.strictObject({
  limits: z.enum(['on', 'shadow', 'off']),
  blocks: z.enum(['on', 'off']),
  until: textOrNull,
  by: textOrNull,
  why: textOrNull,
})

export const nowResponse = z.strictObject({
  atMs: number,
  traffic,
  state,
  limits: z.array(limit),
  top,
  store,
  routes: z.array(route),
  targets: z.array(target),
  regions: regions.nullable().describe('Null if the policy has no regions.'),
  idempotency: idempotency.nullable(),
  nodes: z.array(node),
  changes: z.array(change),
  switch: switched,
  published: numberOrNull.describe('The version that is published for all nodes.'),
  canary: canary.nullable(),
  controlProblem: textOrNull.describe('Null if the control store answers.'),
  usedBounds: z.array(number),
}) satisfies z.ZodType<Omit<Snapshot, 'history'>>
