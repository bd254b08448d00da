/**
 * Orders, with a coordinator that is killed in every step: `node examples/saga/main.ts`. It needs a
 * Redis server at REDIS_URL, by default redis://127.0.0.1:6379, and overwrites its keys `saga:*`.
 */

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { startSaga } from './saga.ts'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const redis = new Redis(url)
await redis.del('saga:balance', 'saga:taken', 'saga:orders', 'saga:notified')
await redis.set('saga:balance', 100)

const saga = await startSaga(url)
for (const step of ['none', 'limit', 'balance', 'order']) {
  const { status } = await saga.order(randomUUID(), { amount: 10, item: 'book' }, step)
  const [balance, orders] = [await redis.get('saga:balance'), await redis.hlen('saga:orders')]
  console.info(`killed after ${step}: status ${status}, balance ${balance}, orders ${orders}`)
}
await saga.stop()
redis.disconnect()
