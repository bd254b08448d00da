/**
 * A request on a socket that `node:http` does not write to: it could not read the request, or the
 * request asks to switch protocols. The connection ends with the response, or becomes a tunnel.
 */

import type { IncomingMessage } from 'node:http'
import type { Body } from '../../body/body.ts'
import type { GatewayResponse } from '../../message.ts'
import type { BadHead } from '../../request-head.ts'
import type { Channel, ChannelRequest } from '../channel.ts'
import { closeAfterReading } from '../http1/lingering.ts'
import { endingOf, wholeBody, writeArriving, writeWhole } from '../http1/response-writer.ts'
import { openTunnel } from '../tunnel.ts'
import type { ChannelOwner, ChannelState } from './node-channel.ts'

export interface BareRequest {
  /** Undefined if the request could not be read. */
  readonly incoming: IncomingMessage | undefined
  /** The reason if the request is refused. */
  readonly problem: BadHead | undefined
  /** Bytes that came behind a request to switch protocols. */
  readonly early: Buffer | undefined
}

export class BareChannel implements Channel {
  readonly incoming: IncomingMessage | undefined
  readonly problem: BadHead | undefined
  /** The connection is not used again, so a rest of a body does not matter. */
  readonly isComplete = true
  readonly #owner: ChannelOwner
  #early: Buffer | undefined
  #request: ChannelRequest | undefined
  #state: ChannelState = 'handling'

  constructor(owner: ChannelOwner, { incoming, problem, early }: BareRequest) {
    this.#owner = owner
    this.incoming = incoming
    this.problem = problem
    this.#early = early
  }

  get isClosed(): boolean {
    return this.#owner.socket.destroyed || this.#state === 'sent'
  }

  get state(): ChannelState {
    return this.#state
  }

  follow(request: ChannelRequest): void {
    this.#request = request
    // Without a reader, a client that closes its side would not be noticed.
    if (this.problem === undefined) this.#owner.socket.on('data', this.#onEarly)
  }

  sendContinue(): void {
    // Requests with a body are refused here.
  }

  sendHints(): void {
    // Hints are for pages, which do not ask for another protocol.
  }

  body(): Body {
    throw new Error('the request has no body')
  }

  send(request: ChannelRequest, response: GatewayResponse): void {
    const { socket } = this.#owner
    if (request !== this.#request || this.isClosed) {
      response.tunnel?.destroy()
      return
    }
    request.isHeadSent = true
    socket.off('data', this.#onEarly)
    const { tunnel } = response
    if (tunnel !== undefined) {
      this.#state = 'sent'
      this.#owner.onSwitched()
      openTunnel(socket, tunnel, response, this.#early)
      socket.once('close', () => request.end(false))
      return
    }
    const { method } = request
    const text = wholeBody(response)
    if (text !== undefined) {
      writeWhole(socket, response, text, { method, keptSeconds: undefined })
      this.onWritten()
      return
    }
    const ending = endingOf(response, method, request.version === '1.1')
    writeArriving(socket, response, { ending, keptSeconds: undefined }, this)
  }

  abort(): void {
    this.#owner.socket.destroy()
  }

  failBody(): void {
    this.abort()
  }

  checkTimeouts(): void {
    // No part of the request is still to arrive.
  }

  onDrain(): void {
    // The response is written to the socket itself.
  }

  onClose(): void {
    this.#request?.end(true)
  }

  onWritten(): void {
    this.#state = 'written'
    const { socket } = this.#owner
    socket.write('', (error) => {
      if (error) return
      this.#state = 'sent'
      this.#request?.end(false)
      this.#owner.onAnswered(false)
      closeAfterReading(socket)
    })
  }

  onFailed(): void {
    this.abort()
  }

  readonly #onEarly = (chunk: Buffer) => {
    this.#early = this.#early === undefined ? chunk : Buffer.concat([this.#early, chunk])
    this.#owner.socket.pause()
  }
}
