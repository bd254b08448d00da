/** A bare TCP connection that records the received bytes and its end. */

import { connect } from 'node:net'

export interface Dialled {
  send(text: string): void
  /** The bytes received so far. */
  readonly received: string
  /** How the other side ended it. */
  readonly state: 'open' | 'ended' | 'reset'
  close(): void
}

export function dial(address: { readonly host: string; readonly port: number }): Dialled {
  const socket = connect({ ...address, noDelay: true })
  const chunks: Buffer[] = []
  let state: Dialled['state'] = 'open'
  socket.on('data', (chunk) => chunks.push(chunk))
  socket.on('end', () => {
    state = 'ended'
  })
  socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'ECONNRESET') state = 'reset'
  })
  return {
    send: (text) => void socket.write(text),
    get received() {
      return Buffer.concat(chunks).toString()
    },
    get state() {
      return state
    },
    close: () => void socket.destroy(),
  }
}
