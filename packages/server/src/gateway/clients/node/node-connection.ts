/**
 * A connection of an HTTP/1 client that `node:http` reads. Requests are handled one at a time, in
 * the order in which they come: `node:http` hands over all that a client sends without waiting.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { BadHead } from '../../request-head.ts'
import type { Connection } from '../connections.ts'
import type { Http1Owner, ServedConnection } from '../http1/http1-connection.ts'
import { requestError } from '../http1/read-request-head.ts'
import { BareChannel } from './bare-channel.ts'
import { type ChannelOwner, NodeChannel } from './node-channel.ts'
import { wireProblem, wireRequest } from './wire-request.ts'

/** Requests of all connections that wait for the response to an earlier one. */
export interface WaitingRequests {
  count: number
}

/** Benchmarks with pipelining send up to 250 requests at once; browsers and SDKs send one. */
const WAITING_MAX = 256

/** About 40 MB. Clients that do not pipeline are served also while others have used this up. */
const WAITING_TOTAL_MAX = 10_000

type ServedChannel = NodeChannel | BareChannel

export class NodeConnection implements ServedConnection, ChannelOwner {
  readonly socket: Socket
  readonly #connection: Connection
  readonly #owner: Http1Owner
  readonly #total: WaitingRequests
  #current: ServedChannel | undefined
  readonly #waiting: ServedChannel[] = []
  /** Once it is true, what still arrives is not read as a request. */
  #isClosing = false
  /** Once it is true, `node:http` reports an error for everything that arrives. */
  #isUnreadable = false
  #hasServed = false
  /** When the connection became idle; from the first byte of a head, when that was noticed. */
  #sinceMs = performance.now()
  #hasBegun = false
  /** `bytesRead` of the socket when the connection became idle. */
  #idleBytes = 0
  /** True while an overload delays the next request. */
  #isHeld = false

  constructor(socket: Socket, connection: Connection, owner: Http1Owner, total: WaitingRequests) {
    this.socket = socket
    this.#connection = connection
    this.#owner = owner
    this.#total = total
    socket.on('end', this.#onEnd)
    socket.on('close', this.#onClose)
    // A socket that leaves `node:http` for another protocol has no other listener.
    socket.on('error', () => socket.destroy())
  }

  /** Takes a request that `node:http` has read. */
  take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    if (this.#isClosing || this.socket.destroyed) return
    this.#add(new NodeChannel(incoming, outgoing, this))
  }

  /**
   * Takes a request to switch protocols, or CONNECT. `node:http` has let go of the socket, also for
   * earlier responses: it does not report any more that the client takes bytes again.
   */
  takeOver(incoming: IncomingMessage, early: Buffer): void {
    if (this.#isClosing) return
    this.socket.on('drain', () => this.#current?.onDrain())
    this.#add(this.#bare(incoming, bodyProblem(incoming), early))
  }

  /** Called for bytes that are not HTTP, a head that is too large, and errors of the socket. */
  onClientError(error: Error): void {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
    const last = this.#waiting.at(-1) ?? this.#current
    const isInBody = last?.isComplete === false
    const isOfSocket = !code.startsWith('HPE_')
    if (this.#isClosing || (this.#isUnreadable && !isOfSocket)) return
    if (isOfSocket || (isInBody && (code === 'HPE_INVALID_EOF_STATE' || last.state === 'sent'))) {
      this.socket.destroy()
      return
    }
    this.#isUnreadable = true
    const isLarge = code === 'HPE_HEADER_OVERFLOW'
    if (isInBody) {
      last.failBody(isLarge ? 'TIDEGATE_TRAILERS_TOO_LARGE' : 'TIDEGATE_BODY_INVALID')
      return
    }
    const detail = 'the header fields of the request are too large'
    const problem = isLarge ? requestError(431, detail) : requestError(400, describe(code))
    this.#refuse(problem)
  }

  get isDraining(): boolean {
    return this.#owner.isDraining
  }

  get isEncrypted(): boolean {
    return this.#connection.isEncrypted
  }

  get requestMsMax(): number {
    return this.#owner.timeouts.request
  }

  get hasMore(): boolean {
    return this.#waiting.length > 0
  }

  checkTimeouts(nowMs: number): void {
    if (this.#isClosing || this.socket.destroyed) return
    const { headers, request } = this.#owner.timeouts
    if (this.#current !== undefined) {
      this.#current.checkTimeouts(nowMs)
      return
    }
    if (!this.#hasBegun && this.socket.bytesRead > this.#idleBytes) {
      this.#hasBegun = true
      this.#sinceMs = nowMs
    }
    const waitedMs = nowMs - this.#sinceMs
    if (this.#hasBegun) {
      if (waitedMs <= Math.min(headers, request)) return
      this.#refuse(requestError(408, 'the request did not arrive in time'))
    } else if (!this.#hasServed && waitedMs > headers) this.socket.destroy()
  }

  closeIfIdle(hasServed: boolean): void {
    if (hasServed && !this.#hasServed) return
    const isIdle = this.#current === undefined && this.#waiting.length === 0
    if (isIdle && this.socket.bytesRead === this.#idleBytes) this.socket.destroySoon()
  }

  onSwitched(): void {
    this.#isClosing = true
    this.#current = undefined
    this.socket.off('end', this.#onEnd).off('close', this.#onClose)
  }

  onAnswered(persists: boolean): void {
    const { holdMs } = this.#connection
    this.#connection.holdMs = 0
    this.#current = undefined
    this.#hasServed = true
    if (!persists) {
      this.#isClosing = true
      return
    }
    if (holdMs > 0) this.#holdFor(holdMs)
    else this.#startNext()
  }

  readonly #onEnd = () => {
    if (this.#current?.state === 'handling') this.socket.destroy()
  }

  readonly #onClose = () => {
    this.#isClosing = true
    this.#total.count -= this.#waiting.length
    this.#waiting.length = 0
    this.#current?.onClose()
    this.#current = undefined
  }

  #add(channel: ServedChannel): void {
    if (this.#current === undefined && !this.#isHeld) {
      this.#start(channel)
      return
    }
    const isTooMany = this.#waiting.length >= WAITING_MAX || this.#total.count >= WAITING_TOTAL_MAX
    if (isTooMany) {
      this.socket.destroy()
      return
    }
    this.#waiting.push(channel)
    this.#total.count += 1
  }

  #startNext(): void {
    if (this.#isClosing || this.#isHeld) return
    const next = this.#waiting.shift()
    if (next === undefined) {
      this.#hasBegun = false
      this.#sinceMs = performance.now()
      this.#idleBytes = this.socket.bytesRead
      if (this.#owner.isDraining) this.socket.destroySoon()
      return
    }
    this.#total.count -= 1
    this.#start(next)
  }

  #start(channel: ServedChannel): void {
    this.#current = channel
    this.#hasBegun = false
    const { reader } = this.#owner
    try {
      const wire = wireRequest(channel.incoming)
      const { headBytesMax } = this.#owner
      const problem = channel.problem ?? wireProblem(wire, channel.incoming, headBytesMax)
      const head = problem ?? reader.head(wire)
      const request = reader.request(wire, head, channel, this.#connection)
      channel.follow(request, wire, head)
      this.#owner.take(request)
    } catch (error) {
      this.#owner.onError(error)
      this.socket.destroy()
    }
  }

  #refuse(problem: BadHead): void {
    this.#add(this.#bare(undefined, problem, undefined))
  }

  #bare(
    incoming: IncomingMessage | undefined,
    problem: BadHead | undefined,
    early: Buffer | undefined,
  ): BareChannel {
    return new BareChannel(this, { incoming, problem, early })
  }

  /** Leaves the next request to the buffer of the kernel for this time. */
  #holdFor(holdMs: number): void {
    this.socket.pause()
    this.#isHeld = true
    this.#owner.held.hold(() => {
      this.#isHeld = false
      if (this.socket.destroyed) return
      this.socket.resume()
      this.#startNext()
    }, holdMs)
  }
}

/** Bytes of a body would be taken for the other protocol. */
function bodyProblem({ method, headers }: IncomingMessage): BadHead | undefined {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = headers
  if (method === 'CONNECT' || (length === '0' && coding === undefined)) return undefined
  return requestError(400, 'a request to switch protocols is a GET without a body')
}

function describe(code: string): string {
  return code === 'HPE_INVALID_EOF_STATE'
    ? 'the request broke off'
    : 'the request is not valid HTTP'
}
