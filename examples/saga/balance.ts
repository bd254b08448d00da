/**
 * Takes money from a balance, and gives it back. The key is written in the same step as the
 * balance: so a call that is executed again after a crash finds it, and takes nothing twice.
 */

import { redis, serve } from './service.ts'

const BALANCE = 'saga:balance'
const TAKEN = 'saga:taken'

/** Returns the balance, or -1 if it is too low. ARGV: the key, the amount. */
const take = `
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return tonumber(redis.call('GET', KEYS[1])) end
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[2]) then return -1 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return redis.call('DECRBY', KEYS[1], ARGV[2])`

const giveBack = `
local amount = redis.call('HGET', KEYS[2], ARGV[1])
if amount then
  redis.call('INCRBY', KEYS[1], amount)
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return tonumber(redis.call('GET', KEYS[1]))`

serve('balance', async ({ path, body }) => {
  const { order, amount } = body
  if (path === '/cancel') {
    const balance = await redis.eval(giveBack, 2, BALANCE, TAKEN, String(order))
    return { status: 200, body: { balance } }
  }
  const balance = await redis.eval(take, 2, BALANCE, TAKEN, String(order), String(amount))
  return balance === -1
    ? { status: 402, body: { error: 'the balance is too low' } }
    : { status: 200, body: { balance } }
})
