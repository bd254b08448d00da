/** A request of a client, as stages see it. */

import { anonymous, type Identity } from '../../limits/request-facts.ts'
import type { Body } from '../body/body.ts'
import { bodyError } from '../body/body-error.ts'
import type { CanonicalTarget } from '../canonical-path.ts'
import { RequestContext } from '../context.ts'
import { fieldOf, type HeaderList } from '../header-list.ts'
import type { GatewayRequest, GatewayResponse, HttpVersion } from '../message.ts'
import type { RequestHead } from '../request-head.ts'
import type { Channel, ChannelRequest } from './channel.ts'
import type { Connection, LiveRequest } from './connections.ts'
import { type BodyLimits, type ReceivedBytes, requestBody } from './request-body.ts'

export interface RequestParts {
  readonly method: string
  readonly version: HttpVersion
  readonly head: RequestHead
  readonly host: string
  readonly target: CanonicalTarget
  readonly channel: Channel
  readonly connection: Connection
  readonly ip: string | undefined
  readonly client: string
  readonly upgrade: string | undefined
  readonly hasBody: boolean
  /** True if the client waits for `100 Continue` before it sends the body. */
  readonly isWaiting: boolean
  /** True if it understands interim responses. */
  readonly takesInterim: boolean
  readonly limits: BodyLimits
  readonly problem: GatewayResponse | undefined
}

export class ClientRequest implements GatewayRequest, ChannelRequest, LiveRequest, ReceivedBytes {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly version: HttpVersion
  readonly host: string
  readonly ip: string | undefined
  readonly client: string
  readonly headers: HeaderList
  readonly forwarded: HeaderList
  readonly connection: Connection
  readonly upgrade: string | undefined
  readonly bodyBytes: number | undefined
  readonly hasBody: boolean
  readonly channel: Channel
  readonly problem: GatewayResponse | undefined
  identity: Identity = anonymous
  readonly context = new RequestContext()
  isHeadSent = false
  bodyBytesReceived = 0
  readonly #limits: BodyLimits
  readonly #takesInterim: boolean
  #isWaiting: boolean
  #hasEnded = false
  #callbacks: ((isAborted: boolean) => void)[] | undefined = undefined

  constructor(parts: RequestParts) {
    const { head } = parts
    this.method = parts.method
    this.path = parts.target.path
    this.query = parts.target.query
    this.version = parts.version
    this.host = parts.host
    this.ip = parts.ip
    this.client = parts.client
    this.headers = head.headers
    this.forwarded = head.forwarded
    this.connection = parts.connection
    this.upgrade = parts.upgrade
    this.bodyBytes = head.bodyBytes
    this.hasBody = parts.hasBody
    this.channel = parts.channel
    this.problem = parts.problem
    this.#limits = parts.limits
    this.#takesInterim = parts.takesInterim
    this.#isWaiting = parts.isWaiting
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** True if the client waits for `100 Continue` before it sends the body. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  header(name: string): string | undefined {
    return name === 'host' ? this.host : fieldOf(this.headers, name)
  }

  body(): Promise<Buffer | Body> {
    if (this.#isWaiting && !this.isHeadSent && !this.#hasEnded) this.channel.sendContinue()
    this.#isWaiting = false
    if (this.#hasEnded || this.channel.isClosed) {
      return Promise.reject(bodyError('TIDEGATE_BODY_ABORTED'))
    }
    return requestBody(this.channel.body(), this.#limits, this)
  }

  inform(status: number, headers: HeaderList): void {
    // Only hints are forwarded, and only before the response.
    if (status !== 103 || this.isHeadSent || this.#hasEnded || !this.#takesInterim) return
    const link = fieldOf(headers, 'link')
    if (link !== undefined && !this.channel.isClosed) this.channel.sendHints(link)
  }

  onEnd(callback: (isAborted: boolean) => void): void {
    if (this.#hasEnded || this.channel.isClosed) callback(true)
    else if (this.#callbacks === undefined) this.#callbacks = [callback]
    else this.#callbacks.push(callback)
  }

  /** For the channel to call: the response was sent, or the client has disconnected. */
  end(isAborted: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const callbacks = this.#callbacks
    this.#callbacks = undefined
    if (callbacks === undefined) return
    for (const callback of callbacks) callback(isAborted)
  }
}
