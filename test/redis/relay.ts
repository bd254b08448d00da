/** A relay to a server that can switch to another server and can lose a reply. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { LOOPBACK } from '../support/servers/ports.ts'
import type { RedisAddress } from '../support/servers/redis.ts'

export interface Relay extends RedisAddress {
  /** Sets the target of new connections; open ones stay. */
  leadTo(port: number): void
  /** Drops the reply to the next script and resets its connection: the server has run it. */
  loseNextReply(): void
  stop(): Promise<void>
}

export async function startRelay(firstPort: number): Promise<Relay> {
  const sockets = new Set<Socket>()
  let port = firstPort
  let isLosing = false
  const listener = createServer({ noDelay: true }, (client) => {
    const server = connect({ port, host: LOOPBACK, noDelay: true })
    const cut = () => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', cut)
      socket.on('close', () => {
        sockets.delete(socket)
        cut()
      })
    }
    let hasScript = false
    client.on('data', (data) => {
      hasScript ||= isLosing && /evalsha/i.test(data.toString('latin1'))
      server.write(data)
    })
    server.on('data', (data) => {
      if (!hasScript) {
        client.write(data)
        return
      }
      isLosing = false
      hasScript = false
      cut()
    })
  })
  listener.listen(0, LOOPBACK)
  await once(listener, 'listening')
  return {
    host: LOOPBACK,
    port: (listener.address() as AddressInfo).port,
    password: undefined,
    tls: undefined,
    leadTo(other) {
      port = other
    },
    loseNextReply() {
      isLosing = true
    },
    async stop() {
      const closed = once(listener, 'close')
      listener.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
