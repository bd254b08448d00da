/** Requests that try to fill a page of metrics. */

import { connect } from 'node:net'
import { expect } from 'vitest'
import { sendRaw } from '../gateway/raw-client.ts'

const UNKNOWN_METHODS = 10

/** Sends requests whose every text differs, on one connection, and waits for the responses. */
export async function flood(port: number, count: number): Promise<void> {
  // A method that is not known closes the connection.
  for (let at = 0; at < UNKNOWN_METHODS; at++) {
    await sendRaw(port, `FLOOD${at} /a/flood HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
  }
  const methods = ['GET', 'POST', 'PURGE', 'DELETE', 'LINK']
  const socket = connect({ port, host: '127.0.0.1' })
  let responses = 0
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.setEncoding('latin1')
  socket.on('error', reject)
  socket.on('close', () => resolve())
  socket.on('data', (chunk: string) => {
    responses += chunk.split('HTTP/1.1 ').length - 1
    if (responses >= count) socket.end()
  })
  for (let at = 0; at < count; at++) {
    const folder = at % 2 === 0 ? 'a' : 'b'
    const fields = `host: flood-${at}.example\r\nx-key: flood-${at}\r\ncontent-length: 0`
    const method = methods[at % methods.length]
    socket.write(`${method} /${folder}/flood-${at} HTTP/1.1\r\n${fields}\r\n\r\n`)
  }
  await promise
  expect(responses).toBe(count)
}
