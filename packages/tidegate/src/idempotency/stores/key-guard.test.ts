import { describe, expect, it, onTestFinished } from 'vitest'
import { pause } from '../../../../../test/support/faults/pause.ts'
import { patientClientKinds } from '../../../../../test/support/servers/clients.ts'
import { startRedis } from '../../../../../test/support/servers/redis.ts'
import { startSentinel } from '../../../../../test/support/servers/sentinel.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import type { LimiterEvent } from '../../observer.ts'
import { randomUUID } from '../../runtime.ts'
import {
  type RedisIdempotencyStoreOptions,
  redisIdempotencyStore,
} from './redis-idempotency-store.ts'

const [, kind] = patientClientKinds
if (kind === undefined) throw new Error('no client')
const { single, sentinel } = kind

function newClaim() {
  const times = { leaseMs: 10_000, ttlMs: 60_000 }
  return { token: randomUUID(), fingerprint: 'a'.repeat(43), takesOver: true, ...times }
}

async function onRedis(options: RedisIdempotencyStoreOptions = {}) {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const { client, close } = await single(server)
  onTestFinished(close)
  const store = redisIdempotencyStore(client, { connectMs: 30_000, ...options })
  return { server, claim: () => store.claim(randomUUID(), newClaim()) }
}

describe('a store of idempotency keys whose server is away', () => {
  it('rejects at once behind an open breaker, and recovers', async () => {
    const events: LimiterEvent[] = []
    const breaker = { callsMin: 3, openFirstMs: 50, openMs: 100 }
    const observer = (event: LimiterEvent) => void events.push(event)
    const { server, claim } = await onRedis({ breaker, observer, deadlineMs: 30_000 })
    expect(await claim()).toMatchObject({ state: 'owned' })
    server.kill('SIGKILL')
    const messages: string[] = []
    await until('the breaker is open', async () => {
      messages.push(await Promise.resolve(claim()).then(String, ({ message }) => message))
      return messages.some((message) => message.includes('breaker is open'))
    })
    expect(events[0]).toMatchObject({ type: 'breaker', shard: 'keys', to: 'open' })
    await server.restart()
    await until('the store answers again', async () => {
      const state = await Promise.resolve(claim()).then(
        (claimed) => claimed.state,
        () => 'failed',
      )
      return state === 'owned'
    })
    expect(events.at(-1)).toMatchObject({ type: 'recovered', shard: 'keys' })
  })

  it('bounds the wait for a server that hangs', async () => {
    const breaker = { callsMin: 3 }
    const { server, claim } = await onRedis({ deadlineMs: 20, breaker })
    await until('the server answers in time', async () => {
      return Promise.resolve(claim()).then(
        () => true,
        () => false,
      )
    })
    await pause(server)
    await expect(claim()).rejects.toThrow(/has not answered within 20 ms/)
    await until('the breaker is open', async () => {
      return (await Promise.resolve(claim()).then(String, String)).includes('breaker is open')
    })
  })

  it('takes its breaker from the options', async () => {
    await expect(onRedis({ breaker: { errorRate: 2 } })).rejects.toThrow(
      /redisIdempotencyStore.breaker.errorRate: got 2/,
    )
  })
})

describe('a replicated store of idempotency keys', () => {
  it('refuses a claim that no replica confirms', async () => {
    const { claim } = await onRedis({ durability: 'replicated', deadlineMs: 30_000 })
    await expect(claim()).rejects.toThrow(/no replica has confirmed/)
  })

  it('has claims and results on the replica when it returns', async () => {
    const group = await startSentinel({ replicas: 1, sentinels: 1 })
    onTestFinished(() => group.stop())
    const { client, close } = await sentinel(group)
    onTestFinished(close)
    const options = { durability: 'replicated', deadlineMs: 30_000, connectMs: 30_000 } as const
    const store = redisIdempotencyStore(client, options)
    const claim = newClaim()
    // A replica of a stalled machine may take longer than the store waits for it.
    const key = await until('a replica confirms the claim', async () => {
      const fresh = randomUUID()
      await store.claim(fresh, claim)
      return fresh
    })
    const [, replica] = group.servers
    expect(await replica?.command('GET', `tgi${key}`)).toMatch(/^R/)
    await until('a replica confirms the result', () =>
      store.complete(key, { ...claim, result: 'done' }),
    )
    expect(await replica?.command('GET', `tgi${key}`)).toMatch(/^D.*done$/)
  })
})
