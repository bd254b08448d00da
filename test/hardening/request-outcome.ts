/** What becomes of a client's bytes: what node:http reads in them, and what it gets back. */

import { createServer, type IncomingMessage, type Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { listening } from '../gateway/test-upstream.ts'
import { LOOPBACK } from '../servers/ports.ts'

export interface ReadRequest {
  readonly method: string
  readonly url: string
  readonly version: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/**
 * Reads as node:http does, one connection at a time. It answers nothing, because what is read
 * behind an answer that closes the connection would be a matter of chance.
 */
export class NodeReader {
  readonly #server: Server
  readonly #port: Promise<number>
  #requests: (ReadRequest | undefined)[] = []

  constructor() {
    // A missing Host ends nothing here, so that what is behind it is read by both.
    this.#server = createServer({ insecureHTTPParser: false, requireHostHeader: false })
    this.#server.on('request', (request) => this.#keep(request))
    // Whether to meet it is for others to decide; the request is one all the same.
    this.#server.on('checkExpectation', (request) => this.#keep(request))
    // What was read before the error is told in this turn of the event loop.
    this.#server.on('clientError', (_error, socket) => setImmediate(() => socket.destroy()))
    this.#port = listening(this.#server)
  }

  /** The requests that are there to their end, in their order. */
  async read(pieces: readonly string[]): Promise<readonly ReadRequest[]> {
    this.#requests = []
    await converse({ port: await this.#port, pieces, answers: 0 })
    return this.#requests.filter((request) => request !== undefined)
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #keep(request: IncomingMessage): void {
    const requests = this.#requests
    const at = requests.push(undefined) - 1
    let body = ''
    request.setEncoding('latin1')
    request.on('error', () => undefined)
    request.on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      const { method = '', url = '', httpVersion: version, headers, complete } = request
      if (!complete) return
      requests[at] = { method, url, version, headers, body }
    })
  }
}

export interface Conversation {
  readonly port: number
  readonly pieces: readonly string[]
  /** So many are waited for before the client says that this was all. */
  readonly answers: number
}

export interface Outcome {
  /** Those that are final. */
  readonly answers: readonly { readonly status: number; readonly head: string }[]
  /** Whether it had to be ended because nothing happened any more. */
  readonly isStuck: boolean
}

/** Far more than any of them takes. */
const STUCK_MS = 10_000

/** All servers run in this process: in so many turns they have done what they can. */
const TURNS = 15

export function converse({ port, pieces, answers }: Conversation): Promise<Outcome> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: LOOPBACK, noDelay: true })
    let received = ''
    let isSent = false
    let isStuck = false
    let isEnding = false
    const timer = setTimeout(() => {
      isStuck = true
      socket.destroy()
    }, STUCK_MS)
    const endIfEnough = async () => {
      if (!isSent || isEnding || answersIn(received).length < answers) return
      isEnding = true
      await turns(TURNS)
      socket.end()
    }
    socket.setEncoding('latin1')
    // A server may have enough before the client has sent all.
    socket.on('error', () => undefined)
    socket.on('data', (text) => {
      received += text
      void endIfEnough()
    })
    socket.on('close', () => {
      clearTimeout(timer)
      resolve({ answers: answersIn(received), isStuck })
    })
    socket.on('connect', async () => {
      await send(socket, pieces)
      isSent = true
      await endIfEnough()
    })
  })
}

async function send(socket: Socket, pieces: readonly string[]): Promise<void> {
  for (const piece of pieces) {
    if (socket.destroyed) return
    socket.write(piece, 'latin1')
    await turns(2)
  }
}

async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1) {
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** No body of these answers looks like a head. */
function answersIn(received: string): { status: number; head: string }[] {
  const heads = received.matchAll(/HTTP\/1\.1 ([2-5]\d\d) .*?\r\n\r\n/gs)
  return Array.from(heads, ([head, status]) => ({ status: Number(status), head }))
}
