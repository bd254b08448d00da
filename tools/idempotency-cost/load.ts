/**
 * Sends POST requests to a gateway on several connections, one at a time on each, and prints how
 * many were answered: `node load.ts PORT SECONDS CONNECTIONS MODE`. The mode is `none` for requests
 * without a key, `new` for a new key each, or `same` for one key.
 */

import { connect } from 'node:net'

const [port = 0, seconds = 0, connections = 0] = process.argv.slice(2, 5).map(Number)
const mode = process.argv[5] ?? 'none'

const BODY = JSON.stringify({ amount: 100, currency: 'EUR', to: 'DE02120300000000202051' })
const endMs = performance.now() + seconds * 1_000
const run = `${process.pid}-${Date.now()}`
let sent = 0
let answered = 0
let failed = 0

function message(): string {
  sent += 1
  const key = mode === 'same' ? `${run}-same` : `${run}-${sent}`
  const field = mode === 'none' ? '' : `idempotency-key: ${key}\r\n`
  // One sender for each thousand requests: a guard bounds the replays of one.
  const sender = mode === 'same' ? 'one' : `sender-${sent % 1_000}`
  return (
    `POST /payments HTTP/1.1\r\nhost: a\r\nx-api-key: ${sender}\r\n${field}` +
    `content-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`
  )
}

await Promise.all(
  Array.from({ length: connections }, () => {
    return new Promise<void>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true })
      socket.setEncoding('latin1')
      socket.on('error', reject)
      socket.on('close', () => resolve())
      socket.on('connect', () => socket.write(message()))
      socket.on('data', (text: string) => {
        if (!text.startsWith('HTTP/1.1 2')) failed += 1
        answered += 1
        if (performance.now() < endMs) socket.write(message())
        else socket.end()
      })
    })
  }),
)
process.stdout.write(`${JSON.stringify({ answered, failed })}\n`)
