/** One policy, four services: a limit has one counter, whichever of them is asked. */

import { Redis } from 'ioredis'
import { createLimiter, frontStore, tokenBucket } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { expect, onTestFinished, test } from 'vitest'
import { startDecisionApi } from '../../../packages/server/src/decision-api/decision-api.ts'
import {
  evaluateCheck,
  priorityMax,
  priorityOfChecks,
} from '../../../packages/server/src/decision-api/evaluate-check.ts'
import { oneStore } from '../../../packages/server/src/limits/charging/store-router.ts'
import { createEnforcer, type Enforcer } from '../../../packages/server/src/limits/enforcer.ts'
import { factsOf, policyOf } from '../../../packages/server/src/limits/enforcer-contract.ts'
import { FailedAttempts } from '../../../packages/server/src/limits/failed-attempts.ts'
import { Overload } from '../../../packages/server/src/overload/overload.ts'
import { grpcHandler } from '../../../packages/server/src/rls/grpc-methods.ts'
import { createPolicyRateLimitService } from '../../../packages/server/src/rls/service/policy-service.ts'
import { SHOULD_RATE_LIMIT } from '../../../packages/server/src/rls/service/rate-limit-service.ts'
import { ResponseTimes } from '../../../packages/server/src/rls/service/response-times.ts'
import { Stats } from '../../../packages/server/src/rls/service/stats.ts'
import { rlsDefaults } from '../../../packages/server/src/rls/settings.ts'
import { listenHttp2 } from '../../../packages/server/src/rls/transport/http2/http2-listener.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { type DescriptorMessage, rlsClient } from './rls-client.ts'

const policy = policyOf(`
limits:
  - { name: per-user, key: user, otherwise: skip, limit: 100, per: 1h }
  - { name: per-route, key: [user, { descriptor: route }], otherwise: skip, limit: 50, per: 1h }`)

const TOKEN = 'a-token-for-tests'

/** A busy machine keeps this deadline: the test is about counters, not about time. */
const DEADLINE_MS = 10_000

test('a limit has one counter for gateway, decision API, library and Envoy', async () => {
  const redis = await startClient()
  const store = frontStore(redisStore(redis), { deadlineMs: DEADLINE_MS })
  const enforcer = createEnforcer(policy, { store })
  const checkByName = await startApi(enforcer)
  const ask = await startService(enforcer, store)
  const limiter = createLimiter({
    name: 'per-user',
    limit: tokenBucket({ limit: 100, per: '1h' }),
    store: redisStore(redis),
    deadlineMs: DEADLINE_MS,
  })
  onTestFinished(() => limiter.close())

  const { evaluation } = await enforcer.evaluate(factsOf({ identity: { user: 'alice' } }), {
    cost: 1,
  })
  expect(evaluation?.decision.remaining).toBe(99)
  expect(await checkByName('per-user', ['alice'], 2)).toMatchObject({ remaining: 97 })
  expect((await limiter.check('alice', { cost: 3 })).remaining).toBe(94)
  const entries = [{ key: 'user', value: 'alice' }]
  expect((await ask({ entries, hits_addend: { value: 4 } })).limit_remaining).toBe(90)
  expect((await limiter.check('bob')).remaining).toBe(99)
  expect(await redis.dbsize()).toBe(2)

  const routed = [...entries, { key: 'route', value: '/a' }]
  expect(await ask({ entries: routed })).toMatchObject({
    limit_remaining: 49,
    current_limit: { name: 'per-route', requests_per_unit: 50, unit: 'HOUR' },
  })
  expect(await checkByName('per-route', ['alice', '/a'], 1)).toMatchObject({ remaining: 48 })
  expect(await redis.dbsize()).toBe(3)
})

async function startClient(): Promise<Redis> {
  const server = await startRedis()
  const redis = new Redis({ host: server.host, port: server.port })
  onTestFinished(async () => {
    redis.disconnect()
    await server.stop()
  })
  return redis
}

async function startApi(enforcer: Enforcer) {
  const api = await startDecisionApi({
    host: '127.0.0.1',
    port: 0,
    token: TOKEN,
    batchMax: 1,
    bodyBytesMax: 10_000,
    version: '0.0.0',
    failures: new FailedAttempts('off'),
    ipv6Prefix: 64,
    overload: new Overload({ delay: DEADLINE_MS, requestsMax: 1_000, criticalShare: 0 }),
    priorityMax: () => priorityMax(enforcer),
    priorityOf: (checks) => priorityOfChecks(enforcer, checks),
    evaluate: (check) => evaluateCheck(enforcer, check),
    onError: (error) => expect(error).toBeUndefined(),
  })
  onTestFinished(() => api.close())
  return async (name: string, key: readonly string[], cost: number) => {
    const response = await fetch(`http://127.0.0.1:${api.address.port}/v1/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ limits: [{ name, key, cost }] }),
    })
    const { decision } = (await response.json()) as { decision: { remaining: number } }
    return decision
  }
}

async function startService(enforcer: Enforcer, store: ReturnType<typeof frontStore>) {
  const service = createPolicyRateLimitService({
    enforcer: () => enforcer,
    stores: oneStore(store),
    stats: new Stats(),
    times: new ResponseTimes(),
    settings: rlsDefaults,
    overload: new Overload({ delay: DEADLINE_MS, requestsMax: 1_000, criticalShare: 0 }),
    onError: (error) => expect.unreachable(String(error)),
  })
  const handler = grpcHandler(new Map([[SHOULD_RATE_LIMIT, service.shouldRateLimit]]))
  const address = { host: '127.0.0.1', port: 0 }
  const transport = await listenHttp2(address, { ...rlsDefaults, handler })
  const client = rlsClient('port' in transport.address ? transport.address.port : 0)
  onTestFinished(async () => {
    client.close()
    await transport.drain(1_000)
  })
  return async (descriptor: DescriptorMessage) => {
    const { statuses } = await client.ask({ domain: 'shop', descriptors: [descriptor] })
    if (statuses[0] === undefined) throw new Error('no status')
    return statuses[0]
  }
}
