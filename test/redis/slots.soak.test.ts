/** Slots that several processes hold for longer than their TTL. */

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { concurrency, createLimiter } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { expect, onTestFinished, test } from 'vitest'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import type { Held, HoldersPlan } from './slot-holders.ts'

const LIMIT = 5

/** Far longer than a busy machine stalls, so that no slot is lost. */
const TTL_MS = 8_000

const PROCESSES = 4

async function startServer(): Promise<{ server: RedisServer; client: Redis }> {
  const server = await startRedis()
  const client = new Redis(server.url)
  onTestFinished(async () => {
    client.disconnect()
    await server.stop()
  })
  return { server, client }
}

async function startHolders(plan: HoldersPlan, onHeld: (held: Held) => void) {
  const program = join(import.meta.dirname, 'slot-holders.ts')
  const child = fork(program, [JSON.stringify(plan)], { execArgv: [] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the process ended with ${code}`)
  })
  await Promise.race([once(child, 'message'), ended])
  ended.catch(() => undefined)
  child.on('message', (held) => onHeld(held as Held))
  return child
}

function peeker(client: Redis) {
  const limit = concurrency({ limit: LIMIT, ttl: `${TTL_MS}ms` })
  return createLimiter({ limit, store: redisStore(client), onStoreError: 'closed' })
}

test('are never more than the limit while their holders renew them', async () => {
  const { server, client } = await startServer()
  const seen: Held[] = []
  const plan = { url: server.url, limit: LIMIT, ttlMs: TTL_MS, callers: 4, holdMs: 1.5 * TTL_MS }
  for (let count = 0; count < PROCESSES; count++) {
    await startHolders(plan, (held) => void seen.push(held))
  }
  await until('slots outlived their time and were given on', () => seen.length > LIMIT)
  expect(Math.max(...seen.map(({ holdersMost }) => holdersMost))).toBe(LIMIT)
  expect(seen.reduce((sum, { lost }) => sum + lost, 0)).toBe(0)
  expect(Math.min(...seen.map(({ renewals }) => renewals))).toBeGreaterThan(1)
  expect(Number(await client.get('holders'))).toBeLessThanOrEqual(LIMIT)
})

test('of a process that is killed are free when their time is over, and not before', async () => {
  const { server, client } = await startServer()
  const limiter = peeker(client)
  const plan = { url: server.url, limit: LIMIT, ttlMs: TTL_MS, callers: 3, holdMs: 3_600_000 }
  const child = await startHolders(plan, () => undefined)
  const remaining = async () => (await limiter.peek('key')).remaining
  await until('it holds its slots', async () => (await remaining()) === LIMIT - 3)
  const heldMs = performance.now()
  await until('it has held them for longer than their time', async () => {
    expect(await remaining()).toBe(LIMIT - 3)
    return performance.now() - heldMs > 1.5 * TTL_MS
  })
  child.kill('SIGKILL')
  const killedMs = performance.now()
  await until('they are free', async () => (await remaining()) === LIMIT)
  expect(performance.now() - killedMs).toBeGreaterThan(TTL_MS / 4)
  expect(performance.now() - killedMs).toBeLessThan(4 * TTL_MS)
})
