/**
 * The backend of the proxies: answers every request without a body with the same 200. It only looks
 * for the end of a head, so that it is faster than the proxies in front of it.
 */

import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'

const body = JSON.stringify({ id: 1, name: 'sample resource' })
const head = [
  'HTTP/1.1 200 OK',
  'Content-Type: application/json',
  `Content-Length: ${body.length}`,
  `Date: ${new Date().toUTCString()}`,
  'Connection: keep-alive',
  'Keep-Alive: timeout=60',
]
const answer = `${head.join('\r\n')}\r\n\r\n${body}`

const EMPTY_LINE = Buffer.from('\r\n\r\n')

const server = createServer({ noDelay: true }, (socket) => {
  let rest = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let at = 0
    let answers = 0
    for (let end = bytes.indexOf(EMPTY_LINE); end !== -1; end = bytes.indexOf(EMPTY_LINE, at)) {
      at = end + EMPTY_LINE.length
      answers += 1
    }
    rest = bytes.subarray(at)
    if (answers > 0) socket.write(answer.repeat(answers), 'latin1')
  })
  socket.on('error', () => socket.destroy())
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())
