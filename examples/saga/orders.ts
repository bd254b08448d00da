/** Creates orders. The key is the id of the order, so that it cannot be created twice. */

import { redis, serve } from './service.ts'

const ORDERS = 'saga:orders'

serve('orders', async ({ body }) => {
  const { order, item } = body
  if (item === 'unavailable') return { status: 409, body: { error: 'the item is unavailable' } }
  await redis.hsetnx(ORDERS, String(order), JSON.stringify({ item }))
  return { status: 201, body: { order } }
})
