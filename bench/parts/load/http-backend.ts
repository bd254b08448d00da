/** A bare node:http server that answers 200 with a small JSON body. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const body = JSON.stringify({ id: 1, name: 'sample resource' })
const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }

const server = createServer((_request, response) => {
  response.writeHead(200, headers).end(body)
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
