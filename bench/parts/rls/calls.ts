/**
 * Load for a rate limit service. h2load sends one prepared body repeatedly; for many values there
 * is a client of our own, which writes frames and counts the ends of responses. Neither reads the
 * responses, so callers check the service with a real client first. This module checks that every
 * response has a message: errors have none, and are faster than counting.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import {
  block,
  frame,
  PREFACE,
  requestFields,
  types,
  uint32,
} from '../../../test/e2e/rls/raw-http2.ts'
import type { RlsService } from './service.ts'

export const CONNECTIONS = 4
export const IN_FLIGHT = 32

export interface Load {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The mean size of the message in a response. */
  readonly replyBytes: number
}

/** Response sizes differ by a byte or two, with the rest and the time to the reset. */
const REPLY_SHARE_MIN = 0.9

/** Calls per second with the body in that file. */
export async function h2load(
  { port, path }: Pick<RlsService, 'port' | 'path'>,
  bodyFile: string,
  replyBytes: number,
  seconds: number,
): Promise<number> {
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers']
  const load = ['-c', String(CONNECTIONS), '-m', String(IN_FLIGHT), '-D', `${seconds * 1_000}ms`]
  const url = `http://127.0.0.1:${port}${path}`
  const child = spawn('h2load', [...load, '-d', bodyFile, ...headers, url])
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  await once(child, 'close')
  // h2load divides by the requested duration, not by the actual one.
  const [, took, unit] = /finished in ([\d.]+)(ms|s),/.exec(output) ?? []
  const done = Number(/(\d+) done/.exec(output)?.[1])
  const dataBytes = Number(/\((\d+)\) data/.exec(output)?.[1])
  const hasReplies = dataBytes > done * replyBytes * REPLY_SHARE_MIN
  if (!hasReplies || !/ 0 failed, 0 errored/.test(output))
    throw new Error(`h2load met errors:\n${output}`)
  return done / (Number(took) / (unit === 'ms' ? 1_000 : 1))
}

/** Calls per second over these bodies in turn; each connection starts at another one. */
export async function callsOver(
  service: Pick<RlsService, 'port' | 'path'>,
  bodies: readonly Buffer[],
  seconds: number,
): Promise<Load> {
  const startMs = performance.now()
  const loads = Array.from({ length: CONNECTIONS }, (_, at) =>
    connectionLoad(service, bodies, Math.floor((at * bodies.length) / CONNECTIONS), seconds),
  )
  const all = await Promise.all(loads)
  const tookMs = performance.now() - startMs
  const timesMs = Float64Array.from(all.flatMap((one) => one.timesMs)).sort()
  const sum = (figure: 'replies' | 'replyBytes') =>
    all.reduce((total, one) => total + one[figure], 0)
  const errors = timesMs.length - sum('replies')
  if (errors > 0) throw new Error(`${errors} of ${timesMs.length} calls were answered with errors`)
  const at = (share: number) => timesMs[Math.floor(timesMs.length * share)] ?? Number.NaN
  return {
    perSecond: (timesMs.length * 1_000) / tookMs,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    replyBytes: sum('replyBytes') / sum('replies'),
  }
}

interface Answers {
  /** The duration of each answered call. */
  readonly timesMs: number[]
  replies: number
  replyBytes: number
}

async function connectionLoad(
  { port, path }: Pick<RlsService, 'port' | 'path'>,
  bodies: readonly Buffer[],
  first: number,
  seconds: number,
): Promise<Answers> {
  const headers = block(
    requestFields.map(([name, value]) => [name, name === ':path' ? path : value]),
  )
  const socket = connect(port, '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
  const windows = Buffer.concat([Buffer.from([0, 4]), uint32(0x3fff_ffff)])
  socket.write(Buffer.concat([PREFACE, frame(types.settings, 0, 0, windows)]))
  socket.write(frame(types.windowUpdate, 0, 0, uint32(0x3fff_ffff)))
  let at = first
  const startsMs: number[] = []
  const answers: Answers = { timesMs: [], replies: 0, replyBytes: 0 }
  const ask = (count: number) => {
    const nowMs = performance.now()
    const parts: Buffer[] = []
    for (let one = 0; one < count; one++) {
      const id = startsMs.push(nowMs) * 2 - 1
      parts.push(frame(types.headers, 4, id, headers))
      parts.push(frame(types.data, 1, id, bodies[at++ % bodies.length] as Buffer))
    }
    socket.write(Buffer.concat(parts))
  }
  readFrames(socket, answers, (ended) => {
    const nowMs = performance.now()
    for (const id of ended) answers.timesMs.push(nowMs - (startsMs[(id - 1) / 2] ?? Number.NaN))
    ask(ended.length)
  })
  ask(IN_FLIGHT)
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
  socket.destroy()
  return answers
}

/** Reports the streams that ended, chunk by chunk. */
function readFrames(
  socket: Socket,
  answers: Answers,
  onEnds: (ids: readonly number[]) => void,
): void {
  let rest = Buffer.alloc(0)
  socket.on('data', (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const ended: number[] = []
    let from = 0
    while (rest.length - from >= 9) {
      const bytes = rest.readUIntBE(from, 3)
      if (from + 9 + bytes > rest.length) break
      const type = rest[from + 3]
      const flags = rest[from + 4] ?? 0
      if (type === types.data && bytes > 0) {
        answers.replies++
        answers.replyBytes += bytes
      }
      if (type === types.headers && (flags & 1) === 1) ended.push(rest.readUInt32BE(from + 5))
      if (type === types.settings && flags === 0) socket.write(frame(types.settings, 1, 0))
      from += 9 + bytes
    }
    rest = rest.subarray(from)
    if (ended.length > 0) onEnds(ended)
  })
}
