/** Joins two connections after both sides have agreed to switch protocols. */

import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HeaderList } from '../header-list.ts'

/** Detects peers that vanished without closing the connection. */
const KEEP_ALIVE_MS = 30_000

/**
 * `timeouts.send` applies to the client here too, and bounds how long the last bytes may take.
 * `early` are the bytes that the client has already sent behind its request.
 */
export function openTunnel(
  client: Socket,
  upstream: Duplex,
  { status, headers }: { status: number; headers: HeaderList },
  early: Buffer | undefined,
): void {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
  const close = () => {
    client.destroy()
    upstream.destroy()
  }
  client.on('error', close).on('close', close)
  upstream.on('error', close).on('close', () => client.destroySoon())
  client.setTimeout(0)
  client.setKeepAlive(true, KEEP_ALIVE_MS)
  client.setNoDelay(true)
  client.write(`${head}\r\n`, 'latin1')
  if (early !== undefined) upstream.write(early)
  client.pipe(upstream)
  upstream.pipe(client)
}
