/** Notifies about orders. It may fail: the coordinator does not undo an order for that. */

import { redis, serve } from './service.ts'

serve('notifications', async ({ body }) => {
  if (body.item === 'quiet') throw new Error('the mail server is down')
  await redis.sadd('saga:notified', String(body.order))
  return { status: 202, body: {} }
})
