/**
 * An Express server with an unused limiter: the Redis client connects with the first request.
 * Started by burst-express.soak.test.ts.
 */

import type { AddressInfo } from 'node:net'
import express from 'express'
import { tokenBucket } from 'tidegate'
import { tidegate } from 'tidegate/express'
import { redisStore } from 'tidegate/redis'
import { type BurstAddress, type BurstClientName, burstClient } from './burst-clients.ts'

export interface ExpressPlan {
  readonly client: BurstClientName
  readonly address: BurstAddress
  /** Units of each API key per day. */
  readonly limit: number
}

const { client, address, limit } = JSON.parse(process.argv[2] ?? '') as ExpressPlan
const app = express()
app.use(
  tidegate({
    limit: tokenBucket({ limit, per: '1d' }),
    store: redisStore(burstClient(client, [address])),
    key: (request) => request.get('x-api-key'),
  }),
)
app.get('/burst', (_request, response) => void response.send('ok'))
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port)
})
process.once('disconnect', () => process.exit())
