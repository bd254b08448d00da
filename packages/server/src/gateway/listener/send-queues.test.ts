import { connect, createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { listening } from '../../../../../test/gateway/test-upstream.ts'
import { until } from '../../../../../test/servers/until.ts'
import { parseSendQueues, readSendQueues } from './send-queues.ts'

const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when
   0: 0100007F:1F90 0200007F:C001 01 00010000:00000000 01:00000018 00000000
   1: 0100007F:1F90 0300007F:C001 01 00000010:00000000 01:00000018 00000000
   2: 0100007F:1F90 0200007F:C002 01 00000000:00000400 00:00000000 00000000
   3: 0100007F:1F90 0200007F:C003 04 00000400:00000000 00:00000000 00000000
`

describe('the queues of the system', () => {
  it('are read by the ports of a connection', () => {
    const queues = parseSendQueues(text)
    expect(queues.of({ localPort: 8080, remotePort: 0xc001 })).toBe(65_536 + 16)
    expect(queues.of({ localPort: 8080, remotePort: 0xc002 })).toBe(0)
    expect(queues.of({ localPort: 8080, remotePort: 0xc003 })).toBe(0)
    expect(queues.of({ localPort: undefined as never, remotePort: 1 })).toBeUndefined()
  })

  // Only Linux tells.
  it.skipIf(process.platform !== 'linux')('tell of a client that does not read', async () => {
    const sockets: Socket[] = []
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => undefined).write(Buffer.alloc(64 * 1_024 ** 2))
    })
    const client = connect(await listening(server), '127.0.0.1').pause()
    onTestFinished(() => {
      client.destroy()
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    await until('something waits', async () => {
      const [socket] = sockets
      return socket !== undefined && ((await readSendQueues())?.of(socket) ?? 0) > 0
    })
  })
})
