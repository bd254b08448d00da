/** An address that leads to a server, can lead to another one later, and can lose a reply. */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { LOOPBACK } from '../servers/ports.ts'
import type { RedisAddress } from '../servers/redis.ts'

export interface Relay extends RedisAddress {
  /** Where new connections lead to; those that are open stay. */
  leadTo(port: number): void
  /** The next reply is lost, and its connection is cut: the server has run what was asked. */
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
    client.on('data', (data) => server.write(data))
    server.on('data', (data) => {
      if (!isLosing) {
        client.write(data)
        return
      }
      isLosing = false
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
