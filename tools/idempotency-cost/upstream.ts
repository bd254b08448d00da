/**
 * An upstream that costs little: `node upstream.ts PORT`. It answers every request with the same
 * response as soon as the last byte of the request has arrived. The gateway sends one request at a
 * time on a connection.
 */

import { createServer } from 'node:net'

const BODY = '{"status":"accepted","id":"pay_1"}'
const RESPONSE =
  'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n' +
  `content-length: ${BODY.length}\r\n\r\n${BODY}`
const END = '\r\n\r\n'

const server = createServer({ noDelay: true }, (socket) => {
  let text = ''
  socket.setEncoding('latin1')
  socket.on('error', () => socket.destroy())
  socket.on('data', (chunk: string) => {
    text += chunk
    const headEnd = text.indexOf(END)
    if (headEnd < 0) return
    const bodyBytes = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1] ?? 0)
    if (text.length < headEnd + END.length + bodyBytes) return
    text = ''
    socket.write(RESPONSE)
  })
})
server.listen(Number(process.argv[2]), '127.0.0.1')
