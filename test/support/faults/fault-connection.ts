/** One connection through the proxy: a socket to the client, one to the server, two flows. */

import type { Socket } from 'node:net'
import { Flow, type FlowFaults, reset } from './fault-flow.ts'

export interface Faults extends FlowFaults {
  /** Replaces the faults above for bytes of clients. */
  readonly requests?: FlowFaults
  /** Replaces the faults above for bytes of the server. */
  readonly replies?: FlowFaults
  /** Resets new connections immediately. */
  readonly refuse?: boolean
  /**
   * The server gets the request and answers it; the client gets the first bytes of the reply, and
   * then a reset.
   */
  readonly resetMidReply?: { readonly afterBytes: number } & Times
  /**
   * The server gets the request and answers it; the client gets only a reset, so the outcome is
   * unknown to it. Takes precedence over `resetMidReply`.
   */
  readonly cutAfterRequest?: Times
}

interface Times {
  /** The number of connections on which it happens, reconnects included. Default: all. */
  readonly times?: number
}

/** The faults that all connections of a proxy share, and the rest of counted ones. */
export class FaultSettings {
  faults: Faults = {}
  #timesLeft = Number.POSITIVE_INFINITY

  set(faults: Faults): void {
    this.faults = faults
    this.#timesLeft = lossOf(faults)?.times ?? Number.POSITIVE_INFINITY
  }

  /** Returns whether a counted fault may happen once more. */
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
  /** Reply bytes since the faults were last set. */
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

  /** Applies changed faults. */
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

  /** Drops all bytes from now on, without notice to either side. */
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
   * The client gets `bytes` bytes and a reset. The server gets an end, because a reset could make
   * it drop requests that it has received and not yet read.
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
  // The error does not matter; `close` follows and ends the other side.
  source.on('error', () => {})
  source.on('close', () => {
    if (!hasEnded) flow.push('reset')
  })
}
