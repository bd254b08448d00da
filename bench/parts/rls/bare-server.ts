/** A bare node:http2 server that answers every call with the same bytes and does nothing else. */

import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'

/** OK, with one status of a limit of which 99 are left, for 58 seconds. */
const message = [8, 1, 18, 14, 8, 1, 18, 4, 8, 100, 16, 2, 24, 99, 34, 2, 8, 58]
const body = Buffer.from([0, 0, 0, 0, message.length, ...message])

const server = createServer()
server.on('stream', (stream) => {
  stream.resume()
  stream.on('error', () => undefined)
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
  stream.end(body)
})
server.on('sessionError', () => undefined)
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
