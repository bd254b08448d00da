/**
 * One of several processes with the same idempotency keys: a server whose handler counts its runs
 * in Redis. Started by `startKeyedWorkers`; it sends its port to its parent.
 */

import { randomBytes, randomInt } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { redisIdempotencyStore } from '../../packages/tidegate/src/idempotency/stores/redis-idempotency-store.ts'
import { idempotency } from '../../packages/tidegate/src/middleware/idempotency/node.ts'

const { url, lease } = JSON.parse(process.argv[2] ?? '')
const redis = new Redis(url)

const useKey = idempotency({
  store: redisIdempotencyStore(redis, { deadlineMs: 30_000, connectMs: 30_000 }),
  scope: () => 'ada',
  lease,
  wait: '60s',
  replaysPerSecondMax: 1_000_000,
})

/** Every kind of outcome that is kept. */
const statuses = [200, 201, 204, 402, 500]

const DELAY_MS_MAX = 15
const BODY_BYTES_MAX = 6_000

/** How often a held handler looks whether it may end. */
const LOOK_MS = 5

const server = createServer(async (request, response) => {
  if (!(await useKey(request, response))) return
  const key = String(request.headers['idempotency-key'])
  await redis.incr(`runs:${key}`)
  if (request.url === '/held') while ((await redis.exists(`go:${key}`)) === 0) await sleep(LOOK_MS)
  else await sleep(randomInt(DELAY_MS_MAX))
  const status = statuses[randomInt(statuses.length)] ?? 200
  response.writeHead(status, { 'content-type': 'application/octet-stream' })
  if (status === 204) response.end()
  else {
    response.write(randomBytes(randomInt(BODY_BYTES_MAX)))
    response.end(randomBytes(16))
  }
})
// A connection that the server closes while a request is sent would be a failed request.
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.once('disconnect', () => process.exit())
