/**
 * Runs the steps of an order: limit, balance, order, notification. Each step has a key that is made
 * of the key of the request, so that a saga that is run again after a crash repeats no effect.
 */

import { createLimiter, fixedWindow } from 'tidegate'
import { redisStore } from 'tidegate/redis'
import { type Call, type Reply, redis, serve } from './service.ts'

const { BALANCE_URL = '', ORDERS_URL = '', NOTIFICATIONS_URL = '' } = process.env

const limiter = createLimiter({
  name: 'orders',
  limit: fixedWindow({ limit: 10, per: '1d' }),
  store: redisStore(redis),
  deadlineMs: 2_000,
})

/** Units of a coordinator that was killed are free again after this time. */
const HOLD_MS = 2_000

serve('coordinator', async (call) => {
  const { amount, item } = call.body
  const order = { order: call.key, amount, item }

  // The limit is first: it is cheap, and a denied order has nothing to undo.
  const unit = await limiter.reserve('ada', 1, { ttlMs: HOLD_MS })
  if (!unit.allowed) return { status: 429, body: { error: 'too many orders' } }
  dieIfAsked(call, 'limit')

  const taken = await post(`${BALANCE_URL}/take`, `${call.key}:take`, order)
  dieIfAsked(call, 'balance')
  if (taken.status !== 200) {
    await unit.cancel()
    return taken
  }

  const created = await post(`${ORDERS_URL}/orders`, `${call.key}:order`, order)
  dieIfAsked(call, 'order')
  if (created.status !== 201) {
    await post(`${BALANCE_URL}/cancel`, `${call.key}:cancel`, order)
    dieIfAsked(call, 'cancel')
    await unit.cancel()
    return created
  }

  // Now there is an order, so the limit is charged.
  await unit.commit(1)
  // An order without a notification is still an order.
  await post(`${NOTIFICATIONS_URL}/notify`, `${call.key}:notify`, order).catch(() => undefined)
  return created
})

async function post(url: string, key: string, body: object): Promise<Reply> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key }
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as object }
}

/** For the example: the process ends as if the machine had lost power, once for each key. */
function dieIfAsked({ header }: Call, step: string): void {
  if (header('x-die-after') === step) process.kill(process.pid, 'SIGKILL')
}
