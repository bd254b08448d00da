/**
 * Load for a rate limit service. h2load sends one prepared body over and over; for many values
 * there is a client of our own, which writes frames and counts the ends of answers. Neither looks
 * at what is answered, so whoever measures has to ask with a real client first.
 */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import {
  frame,
  message,
  PREFACE,
  rateLimitRequest,
  requestBlock,
  SHOULD_RATE_LIMIT,
  types,
  uint32,
} from '../../test/rls/raw-http2.ts'

export const CONNECTIONS = 4
export const IN_FLIGHT = 32

export function hasH2load(): boolean {
  return spawnSync('h2load', ['--version']).status === 0
}

/** Calls per second with the body in that file. */
export async function h2load(port: number, bodyFile: string, seconds: number): Promise<number> {
  const url = `http://127.0.0.1:${port}${SHOULD_RATE_LIMIT}`
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers']
  const load = ['-c', String(CONNECTIONS), '-m', String(IN_FLIGHT), '-D', String(seconds)]
  const child = spawn('h2load', [...load, '-d', bodyFile, ...headers, url])
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  await once(child, 'close')
  const [, perSecond] = /finished in .*?, ([\d.]+) req\/s/.exec(output) ?? []
  if (!/ 0 failed, 0 errored/.test(output)) throw new Error(`h2load failed:\n${output}`)
  return Number(perSecond)
}

/** Calls per second over so many values of the key `tenant`, in turn. */
export async function valuesLoad(port: number, values: number, seconds: number): Promise<number> {
  const bodies = Array.from({ length: values }, (_, at) =>
    message(rateLimitRequest('bench', 'tenant', `t${at}`)),
  )
  const loads = Array.from({ length: CONNECTIONS }, (_, at) =>
    connectionLoad(port, bodies, Math.floor((at * values) / CONNECTIONS), seconds),
  )
  const counts = await Promise.all(loads)
  return counts.reduce((sum, count) => sum + count, 0) / seconds
}

async function connectionLoad(
  port: number,
  bodies: readonly Buffer[],
  first: number,
  seconds: number,
): Promise<number> {
  const socket = connect(port, '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
  const windows = Buffer.concat([Buffer.from([0, 4]), uint32(0x3fff_ffff)])
  socket.write(Buffer.concat([PREFACE, frame(types.settings, 0, 0, windows)]))
  socket.write(frame(types.windowUpdate, 0, 0, uint32(0x3fff_ffff)))
  let nextId = 1
  let at = first
  let ended = 0
  let rest = Buffer.alloc(0)
  const ask = (count: number) => {
    const parts: Buffer[] = []
    for (let one = 0; one < count; one++, nextId += 2) {
      parts.push(frame(types.headers, 4, nextId, requestBlock))
      parts.push(frame(types.data, 1, nextId, bodies[at++ % bodies.length] as Buffer))
    }
    socket.write(Buffer.concat(parts))
  }
  socket.on('data', (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let from = 0
    let ends = 0
    while (rest.length - from >= 9) {
      const end = from + 9 + rest.readUIntBE(from, 3)
      if (end > rest.length) break
      if (rest[from + 3] === types.headers && ((rest[from + 4] ?? 0) & 1) === 1) ends++
      if (rest[from + 3] === types.settings && rest[from + 4] === 0) {
        socket.write(frame(types.settings, 1, 0))
      }
      from = end
    }
    rest = rest.subarray(from)
    ended += ends
    if (ends > 0) ask(ends)
  })
  ask(IN_FLIGHT)
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
  socket.destroy()
  return ended
}
