/** One Express application for bench/express.ts: with our middleware, the peer's, or none. */

import type { AddressInfo } from 'node:net'
import express from 'express'
import { rateLimit } from 'express-rate-limit'
import { tokenBucket } from 'tidegate'
import { tidegate } from 'tidegate/express'

/** High enough that both admit everything: what is compared is the way of an admitted request. */
const LIMIT = 1_000_000_000

const middlewares = {
  tidegate: () => tidegate({ limit: tokenBucket({ limit: LIMIT, per: '1m' }) }),
  'express-rate-limit': () =>
    rateLimit({ windowMs: 60_000, limit: LIMIT, standardHeaders: 'draft-8', legacyHeaders: true }),
}

const name = process.argv[2] as keyof typeof middlewares
const app = express()
app.use(middlewares[name]())
app.get('/', (_request, response) => {
  response.send('ok')
})
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port)
})
process.on('disconnect', () => process.exit(0))
