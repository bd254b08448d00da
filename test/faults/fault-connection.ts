/** One connection through the proxy: a socket to the client, one to the server, two flows. */

import type { Socket } from 'node:net'
import { Flow, type FlowFaults, reset } from './fault-flow.ts'

export interface Faults extends FlowFaults {
  /** Instead of the above for what clients send. */
  readonly requests?: FlowFaults
  /** Instead of the above for what the server sends. */
  readonly replies?: FlowFaults
  /** New connections are reset at once. */
  readonly refuse?: boolean
  /**
   * The server gets the request and answers it; the client gets the first bytes of what comes
   * from now on, and then a reset.
   */
  readonly resetMidReply?: { readonly afterBytes: number } & Times
  /**
   * The server gets the request and answers it; the client gets nothing of the answer, only a
   * reset. What was done is unknown to it. Comes before `resetMidReply`.
   */
  readonly cutAfterRequest?: Times
}

interface Times {
  /** On how many connections it happens, also on those of clients that come back. Default: all. */
  readonly times?: number
}

/** The faults of a proxy as all of its connections see them, and what is left of counted ones. */
export class FaultSettings {
  faults: Faults = {}
  #timesLeft = Number.POSITIVE_INFINITY

  set(faults: Faults): void {
    this.faults = faults
    this.#timesLeft = lossOf(faults)?.times ?? Number.POSITIVE_INFINITY
  }

  /** Whether a counted fault may happen once more. */
  spend(): boolean {
    this.#timesLeft -= 1
    return this.#timesLeft >= 0
  }
}

export interface ByteCounts {
  requestBytes: number
  replyBytes: number
}

export class FaultConnection {
  readonly #client: Socket
  readonly #server: Socket
  readonly #settings: FaultSettings
  readonly #requests: Flow
  readonly #replies: Flow
  /** Since the faults were last set. */
  #replyBytes = 0
  #isLost = false

  constructor(client: Socket, server: Socket, settings: FaultSettings, counts: ByteCounts) {
    this.#client = client
    this.#server = server
    this.#settings = settings
    this.#requests = new Flow(client, server, () => flowFaults(settings.faults, 'requests'))
    this.#replies = new Flow(server, client, () => flowFaults(settings.faults, 'replies'))
    forward(client, this.#requests, (data) => {
      counts.requestBytes += data.length
      this.#requests.push(data)
    })
    forward(server, this.#replies, (data) => {
      counts.replyBytes += data.length
      this.#takeReply(data)
    })
  }

  /** The faults are others now. */
  update(): void {
    this.#replyBytes = 0
    this.#requests.pump()
    this.#replies.pump()
  }

  /** Resets both sides at once. */
  cut(): void {
    this.#requests.close()
    this.#replies.close()
    reset(this.#client)
    reset(this.#server)
  }

  /** Nothing passes any more, for good, and neither side is told. */
  freeze(): void {
    this.#requests.close()
    this.#replies.close()
  }

  #takeReply(data: Buffer): void {
    if (this.#isLost) return
    const loss = lossOf(this.#settings.faults)
    const bytesBefore = this.#replyBytes
    this.#replyBytes += data.length
    const isLoss = loss !== undefined && this.#replyBytes >= loss.afterBytes
    if (isLoss && this.#settings.spend()) this.#lose(data, loss.afterBytes - bytesBefore)
    else this.#replies.push(data)
  }

  /**
   * The client gets so many bytes and a reset. The server gets an end instead, as a reset could
   * make it forget requests that it has received and not yet read.
   */
  #lose(reply: Buffer, bytes: number): void {
    this.#isLost = true
    if (bytes > 0) this.#replies.push(reply.subarray(0, bytes))
    this.#replies.push('reset')
    this.#requests.close()
    this.#server.end()
  }
}

function lossOf({ cutAfterRequest, resetMidReply }: Faults) {
  return cutAfterRequest === undefined ? resetMidReply : { afterBytes: 0, ...cutAfterRequest }
}

function flowFaults(faults: Faults, direction: 'requests' | 'replies'): FlowFaults {
  return faults[direction] ?? faults
}

function forward(source: Socket, flow: Flow, take: (data: Buffer) => void): void {
  let hasEnded = false
  source.on('data', take)
  source.on('end', () => {
    hasEnded = true
    flow.push('end')
  })
  // What went wrong does not matter, only that the other side is told; `close` follows.
  source.on('error', () => {})
  source.on('close', () => {
    if (!hasEnded) flow.push('reset')
  })
}
