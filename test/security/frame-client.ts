/**
 * An HTTP/2 client over TLS that sends exactly the given frames, also invalid ones. Every header
 * field is an uncompressed literal, so that it can contain any bytes.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { onTestFinished } from 'vitest'
import {
  errorCodes,
  FRAME_HEADER_BYTES,
  flags,
  frame,
  frameTypes,
  PREFACE,
  settingsFrame,
  uint32Frame,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { HpackDecoder } from '../../packages/server/src/rls/transport/http2/hpack/hpack-decoder.ts'
import { makeCertificate } from '../support/servers/certificates.ts'
import { LOOPBACK } from '../support/servers/ports.ts'

export type Fields = readonly (readonly [name: string, value: string])[]

/** The response on one stream. */
export interface StreamAnswer {
  status: number
  body: string
  /** The code of a reset; undefined if there was none. */
  reset: number | undefined
  isEnded: boolean
}

/** A certificate in a folder of its own, and the section of the policy that uses it. */
export function makeTls(atEnd: (stop: () => void) => void = onTestFinished): {
  folder: string
  tls: { cert: string; key: string }
} {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-hardening-'))
  atEnd(() => rmSync(folder, { recursive: true, force: true }))
  const { certFile, keyFile } = makeCertificate(folder)
  return { folder, tls: { cert: certFile, key: keyFile } }
}

export class FrameClient {
  readonly socket: TLSSocket
  /** The code of a GOAWAY; undefined if there was none. */
  goAway: number | undefined
  /** The last stream that the server served, from its GOAWAY. */
  lastStream: number | undefined
  isClosed = false
  /** True once it has acknowledged the settings of the server. */
  hasSettings = false
  /** True if it answers PING, as every harmless client does. */
  answersPings = false
  readonly #answers = new Map<number, StreamAnswer>()
  readonly #decoder = new HpackDecoder()
  #rest = Buffer.alloc(0)
  #nextId = 1

  private constructor(socket: TLSSocket) {
    this.socket = socket
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.isClosed = true
    })
    socket.on('data', (bytes) => this.#read(bytes))
  }

  /** Ends when the test does. `from` is the address and port that it connects from. */
  static async connect(
    port: number,
    windowBytes = 65_535,
    from: { localAddress?: string; localPort?: number } = {},
  ): Promise<FrameClient> {
    const socket = connect({
      ...from,
      port,
      host: LOOPBACK,
      ALPNProtocols: ['h2'],
      rejectUnauthorized: false,
    })
    const client = new FrameClient(socket)
    onTestFinished(() => void socket.destroy())
    await new Promise((resolve, reject) => {
      socket.once('secureConnect', resolve).once('error', reject)
    })
    const INITIAL_WINDOW_SIZE = 4
    socket.write(Buffer.concat([PREFACE, settingsFrame([[INITIAL_WINDOW_SIZE, windowBytes]])]))
    return client
  }

  /** The next stream of a client. */
  newStream(): number {
    const id = this.#nextId
    this.#nextId += 2
    return id
  }

  send(...frames: readonly Uint8Array[]): void {
    if (!this.isClosed) this.socket.write(Buffer.concat(frames))
  }

  /** Sends a request with a body or none, and returns its stream. */
  request(fields: Fields, body?: string): number {
    const id = this.newStream()
    const last = body === undefined ? flags.endStream : 0
    this.send(frame(frameTypes.headers, flags.endHeaders | last, id, block(fields)))
    if (body !== undefined) {
      this.send(frame(frameTypes.data, flags.endStream, id, Buffer.from(body, 'latin1')))
    }
    return id
  }

  answer(id: number): StreamAnswer {
    const known = this.#answers.get(id)
    if (known !== undefined) return known
    const made = { status: 0, body: '', reset: undefined, isEnded: false }
    this.#answers.set(id, made)
    return made
  }

  /** True if the stream has ended. */
  isOver(id: number): boolean {
    return this.isClosed || this.goAway !== undefined || this.answer(id).isEnded
  }

  #read(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes])
    for (;;) {
      if (this.#rest.length < FRAME_HEADER_BYTES) return
      const length = this.#rest.readUIntBE(0, 3)
      const end = FRAME_HEADER_BYTES + length
      if (this.#rest.length < end) return
      const [type, flag] = [this.#rest.readUInt8(3), this.#rest.readUInt8(4)]
      const id = this.#rest.readUInt32BE(5) & 0x7fff_ffff
      this.#take(type, flag, id, this.#rest.subarray(FRAME_HEADER_BYTES, end))
      this.#rest = this.#rest.subarray(end)
    }
  }

  #take(type: number, flag: number, id: number, payload: Buffer): void {
    const answer = this.answer(id)
    if (type === frameTypes.headers) {
      this.#decoder.decode(payload, (name, value) => {
        if (name === ':status') answer.status = Number(value)
      })
    } else if (type === frameTypes.data) {
      answer.body += payload.toString('latin1')
    } else if (type === frameTypes.reset) {
      answer.reset = payload.readUInt32BE(0)
      answer.isEnded = true
    } else if (type === frameTypes.goAway) {
      this.goAway = payload.readUInt32BE(4)
      this.lastStream = payload.readUInt32BE(0)
    } else if (type === frameTypes.settings && (flag & flags.ack) === 0) {
      this.send(frame(frameTypes.settings, flags.ack, 0, Buffer.alloc(0)))
      this.hasSettings = true
    }
    if (type === frameTypes.ping && (flag & flags.ack) === 0 && this.answersPings) {
      this.send(frame(frameTypes.ping, flags.ack, 0, payload))
    }
    const mayEnd = type === frameTypes.headers || type === frameTypes.data
    if (mayEnd && (flag & flags.endStream) !== 0) answer.isEnded = true
  }
}

/** The fields of a request for a path, with additional ones. */
export function requestFields(path: string, ...others: Fields): Fields {
  const named = new Set(others.map(([name]) => name))
  const usual: Fields = [
    [':method', 'GET'],
    [':scheme', 'https'],
    [':authority', 'a.example'],
    [':path', path],
  ]
  const pseudo = others.filter(([name]) => name.startsWith(':'))
  const plain = others.filter(([name]) => !name.startsWith(':'))
  return [...usual.filter(([name]) => !named.has(name)), ...pseudo, ...plain]
}

/** https://www.rfc-editor.org/rfc/rfc7541#section-6.2.2, with names and values as they are. */
export function block(fields: Fields): Buffer {
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.from([0]), literal(name), literal(value)]),
  )
}

export function resetFrame(id: number): Buffer {
  return uint32Frame(frameTypes.reset, id, errorCodes.cancel)
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1')
  const length: number[] = []
  const most = 0x7f
  if (bytes.length < most) length.push(bytes.length)
  else {
    length.push(most)
    let rest = bytes.length - most
    for (; rest >= 0x80; rest >>>= 7) length.push((rest & 0x7f) | 0x80)
    length.push(rest)
  }
  return Buffer.concat([Buffer.from(length), bytes])
}
