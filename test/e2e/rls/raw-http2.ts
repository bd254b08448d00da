/** A client that sends any frames, valid or not, and records the responses. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { until } from '../../support/servers/until.ts'

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly streamId: number
  readonly payload: Buffer
}

export const types = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

export class RawClient {
  readonly frames: Frame[] = []
  readonly socket: Socket
  isClosed = false
  #rest = Buffer.alloc(0)

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk) => this.#read(chunk))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.isClosed = true
    })
  }

  send(...parts: readonly Uint8Array[]): void {
    if (!this.isClosed) this.socket.write(Buffer.concat(parts))
  }

  /** Waits for a frame that matches. */
  next(what: string, fits: (frame: Frame) => boolean): Promise<Frame> {
    return until(what, () => this.frames.find(fits))
  }

  untilClosed(): Promise<boolean> {
    return until('the connection is closed', () => this.isClosed)
  }

  /** Waits for GOAWAY and returns its error code. */
  async goneWith(): Promise<number> {
    const { payload } = await this.next('GOAWAY comes', ({ type }) => type === types.goAway)
    return payload.readUInt32BE(4)
  }

  async resetOf(streamId: number): Promise<number> {
    const isIt = (frame: Frame) => frame.type === types.reset && frame.streamId === streamId
    const { payload } = await this.next(`a reset of ${streamId} comes`, isIt)
    return payload.readUInt32BE(0)
  }

  /** The block of the last headers of a stream, which are its trailers. */
  async trailersOf(streamId: number): Promise<string> {
    const isIt = ({ type, flags, streamId: id }: Frame) =>
      type === types.headers && id === streamId && (flags & 1) === 1
    return (await this.next(`the end of ${streamId} comes`, isIt)).payload.toString('latin1')
  }

  #read(chunk: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, chunk])
    while (this.#rest.length >= 9) {
      const end = 9 + this.#rest.readUIntBE(0, 3)
      if (this.#rest.length < end) return
      this.frames.push({
        type: this.#rest[3] ?? 0,
        flags: this.#rest[4] ?? 0,
        streamId: this.#rest.readUInt32BE(5),
        payload: Buffer.from(this.#rest.subarray(9, end)),
      })
      this.#rest = this.#rest.subarray(end)
    }
  }
}

/** Connects, and sends the HTTP/2 preface unless the test does that itself. */
export async function rawClient(port: number, greeting = true): Promise<RawClient> {
  const socket = connect(port, '127.0.0.1')
  const client = new RawClient(socket)
  await once(socket, 'connect')
  if (greeting) client.send(PREFACE, frame(types.settings, 0, 0))
  return client
}

export function frame(
  type: number,
  flags: number,
  streamId: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(streamId, 5)
  return Buffer.concat([head, payload])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** A header block of literals that changes no table. */
export function block(fields: readonly (readonly [name: string, value: string])[]): Buffer {
  const text = (value: string) =>
    Buffer.concat([length(value.length), Buffer.from(value, 'latin1')])
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.from([0]), text(name), text(value)]),
  )
}

function length(value: number): Buffer {
  if (value < 127) return Buffer.from([value])
  const bytes = [127]
  let rest = value - 127
  for (; rest >= 128; rest >>= 7) bytes.push((rest & 127) | 128)
  return Buffer.from([...bytes, rest])
}

export const requestFields = [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', SHOULD_RATE_LIMIT],
  [':authority', 'localhost'],
  ['content-type', 'application/grpc'],
  ['te', 'trailers'],
] as const

export const requestBlock = block(requestFields)

/** A message in gRPC framing. */
export function message(bytes: Uint8Array, compressed = 0): Buffer {
  return Buffer.concat([Buffer.from([compressed]), uint32(bytes.length), bytes])
}

/** A RateLimitRequest with one descriptor of one entry, all of them shorter than 128 bytes. */
export function rateLimitRequest(domain: string, key: string, value: string): Buffer {
  const field = (number: number, bytes: Uint8Array) =>
    Buffer.concat([Buffer.from([number * 8 + 2, bytes.length]), bytes])
  const entry = Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))])
  return Buffer.concat([field(1, Buffer.from(domain)), field(2, field(1, entry))])
}

/** A whole call in two frames. */
export function call(streamId: number, body: Uint8Array): Buffer {
  return Buffer.concat([
    frame(types.headers, 4, streamId, requestBlock),
    frame(types.data, 1, streamId, body),
  ])
}
