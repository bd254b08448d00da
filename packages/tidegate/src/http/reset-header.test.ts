import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { patient } from '../../../../test/support/patience.ts'
import { startRedis } from '../../../../test/support/servers/redis.ts'
import type { Limit } from '../algorithms/limit.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { fixedWindow, slidingWindow, tokenBucket } from '../limits/limits.ts'
import { tidegate } from '../middleware/node.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import { redisStore } from '../stores/redis/redis-store.ts'
import type { Store } from '../stores/store.ts'
import { writeHeaders } from './headers.ts'

const HOUR_MS = 3_600_000

/** The end of an hour. */
const END_MS = 500_000 * HOUR_MS

const figures = {
  allowed: true,
  limit: 100,
  remaining: 99,
  retryAfterMs: 0,
  resetAfterMs: 600_000,
  granted: 1,
  degraded: null,
  source: 'store' as const,
}

/** What is written so long after a decision that was made ten minutes before the end. */
function resetAt(limit: Limit, lateMs: number, more: object = {}): number {
  const fields = new Map<string, string>()
  const head = {
    getHeader: (name: string) => fields.get(name),
    setHeader: (name: string, value: string) => fields.set(name, value),
  }
  const decision = { ...figures, ...more }
  const applied = [{ name: 'default', limit, decision }]
  writeHeaders(head, { decision, applied }, 'both', END_MS - 600_000 + lateMs)
  return Number(fields.get('x-ratelimit-reset'))
}

describe('X-RateLimit-Reset', () => {
  const hour = fixedWindow({ limit: 100, per: '1h' })
  const endSeconds = END_MS / 1_000

  it.each([-5_000, -1_001, -1, 0, 1, 15, 999, 1_001, 5_000])(
    'is the end of a window though it is written %s ms late',
    (lateMs) => {
      expect(resetAt(hour, lateMs)).toBe(endSeconds)
      expect(resetAt(slidingWindow({ limit: 100, per: '1h' }), lateMs)).toBe(endSeconds)
      expect(resetAt(fixedWindow({ limit: 100, per: 'day' }), lateMs)).toBe(endSeconds)
    },
  )

  it('is exact where it is not the end of a window', () => {
    expect(resetAt(tokenBucket({ limit: 100, per: '1h' }), 1)).toBe(endSeconds + 1)
    expect(resetAt(hour, 0, { resetAfterMs: 500_000 })).toBe(endSeconds - 100)
    expect(resetAt(hour, 0, { resetAfterMs: 0 })).toBe(endSeconds - 600)
    const degraded = { reason: 'overloaded', mode: 'shed' }
    expect(resetAt(hour, 1, { degraded, allowed: false })).toBe(endSeconds + 1)
  })

  it('is one value for 300 requests in a window, in memory', async () => {
    expect(await valuesOf(memoryStore())).toEqual(new Set([endOfMonth()]))
  })

  it('is one value for 300 requests in a window, on Redis', async () => {
    const server = await startRedis()
    const client = new Redis(server.url)
    onTestFinished(async () => {
      client.disconnect()
      await server.stop()
    })
    expect(await valuesOf(redisStore(client))).toEqual(new Set([endOfMonth()]))
  })
})

const WINDOW_MS = 30 * 24 * HOUR_MS

function endOfMonth(): string {
  return String((Math.floor(Date.now() / WINDOW_MS) + 1) * (WINDOW_MS / 1_000))
}

/** The values that 300 requests to a real server get, of which 100 are denied. */
async function valuesOf(store: Store): Promise<Set<string | null>> {
  const limiter = createLimiter({
    limit: fixedWindow({ limit: 200, per: '30d' }),
    store,
    ...patient,
  })
  const handle = tidegate({ limiter, key: () => 'key' })
  const server = createServer(async (request, response) => {
    if (await handle(request, response)) response.end('ok')
  })
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const values = new Set<string | null>()
  for (let at = 0; at < 30; at++) {
    const responses = await Promise.all(Array.from({ length: 10 }, () => fetch(url)))
    for (const response of responses) {
      values.add(response.headers.get('x-ratelimit-reset'))
      await response.text()
    }
  }
  return values
}
