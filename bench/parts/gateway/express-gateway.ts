/**
 * A gateway of common parts: Express, http-proxy-middleware and express-rate-limit with its Redis
 * store, by API key. Arguments: the backend's URL and the port of Redis.
 */

import { Agent } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { createProxyMiddleware } from 'http-proxy-middleware'
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'

const [target = '', redisPort = ''] = process.argv.slice(2)
const redis = new Redis(Number(redisPort), '127.0.0.1')
const call = (command: string, ...args: string[]) => redis.call(command, ...args) as Promise<never>

const app = express()
app.disable('x-powered-by')
app.use(
  rateLimit({
    windowMs: 1_000,
    limit: 1_000_000,
    standardHeaders: 'draft-8',
    legacyHeaders: true,
    keyGenerator: (request) => String(request.headers['x-api-key']),
    store: new RedisStore({ sendCommand: call }),
  }),
)
const agent = new Agent({ keepAlive: true, maxSockets: 128 })
app.use(createProxyMiddleware({ target, agent, xfwd: true }))
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port)
})
process.on('disconnect', () => process.exit())
