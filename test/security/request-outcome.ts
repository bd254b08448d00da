/** The outcome of a client's bytes: the requests that node:http reads, and the responses. */

import { createServer, type IncomingMessage, type Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { listening } from '../e2e/gateway/test-upstream.ts'
import { LOOPBACK } from '../support/servers/ports.ts'

export interface ReadRequest {
  readonly method: string
  readonly url: string
  readonly version: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/**
 * Reads with node:http, one connection at a time. It does not answer, because reading after a
 * response that closes the connection would be a race.
 */
export class NodeReader {
  readonly #server: Server
  readonly #port: Promise<number>
  #requests: (ReadRequest | undefined)[] = []

  constructor() {
    // A missing Host is accepted here, so that both read the following bytes.
    this.#server = createServer({ insecureHTTPParser: false, requireHostHeader: false })
    this.#server.on('request', (request) => this.#keep(request))
    // A request with an unknown expectation is a valid request.
    this.#server.on('checkExpectation', (request) => this.#keep(request))
    // Requests read before the error are reported in this turn of the event loop.
    this.#server.on('clientError', (_error, socket) => setImmediate(() => socket.destroy()))
    this.#port = listening(this.#server)
  }

  /** The complete requests, in their order. */
  async read(pieces: readonly string[]): Promise<readonly ReadRequest[]> {
    this.#requests = []
    const { isStuck } = await converse({ port: await this.#port, pieces, answers: 0 })
    if (isStuck) throw new Error(`node:http is not done after ${STUCK_MS} ms`)
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
  /** The number of responses to wait for before the client ends its side. */
  readonly answers: number
}

export interface Outcome {
  /** The final responses. */
  readonly answers: readonly { readonly status: number; readonly head: string }[]
  /** True if the connection was ended for lack of progress. */
  readonly isStuck: boolean
}

/** Far longer than any connection takes. */
const STUCK_MS = 60_000

/** All servers run in this process, and are done after this many turns of the event loop. */
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
    // A server may close before the client has sent everything.
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

/** No body of these responses looks like a head. */
function answersIn(received: string): { status: number; head: string }[] {
  const heads = received.matchAll(/HTTP\/1\.1 ([2-5]\d\d) .*?\r\n\r\n/gs)
  return Array.from(heads, ([head, status]) => ({ status: Number(status), head }))
}
