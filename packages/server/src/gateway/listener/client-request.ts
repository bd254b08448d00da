/** A request of a client as the stages see it. */

import type { Readable } from 'node:stream'
import type { Priority } from '../../policy/priority.ts'
import { anonymous, type Identity } from '../../policy/request-facts.ts'
import type { Verdict } from '../../policy/verdict.ts'
import type { CanonicalTarget } from '../canonical-path.ts'
import { fieldOf, type GatewayRequest, type GatewayResponse, type HeaderList } from '../message.ts'
import type { RequestHead } from '../request-head.ts'
import type { Route } from '../stages/route.ts'
import type { Channel } from './channel.ts'
import type { Connection, LiveRequest } from './connections.ts'
import { type BodyLimits, requestBody } from './request-body.ts'

export interface RequestParts {
  readonly method: string
  readonly head: RequestHead
  readonly host: string
  readonly target: CanonicalTarget
  readonly channel: Channel
  readonly connection: Connection
  readonly ip: string | undefined
  readonly client: string
  readonly upgrade: string | undefined
  readonly hasBody: boolean
  /** Whether the client waits for a word before it sends the body. */
  readonly isWaiting: boolean
  /** Whether it understands answers that are not final. */
  readonly takesInterim: boolean
  readonly limits: BodyLimits
  readonly problem: GatewayResponse | undefined
}

export class ClientRequest implements GatewayRequest, LiveRequest {
  readonly method: string
  readonly path: string
  readonly query: string
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
  isExempt = false
  isUrgent = false
  priority: Priority | undefined = undefined
  holdMs = 0
  verdict: Verdict | undefined = undefined
  judgedMs = 0
  route: Route | undefined = undefined
  target = ''
  isHeadSent = false
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

  /** Whether the client waits for a word before it sends the body. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  header(name: string): string | undefined {
    return name === 'host' ? this.host : fieldOf(this.headers, name)
  }

  body(): Promise<Buffer | Readable> {
    if (this.#isWaiting && !this.isHeadSent && !this.#hasEnded) this.channel.sendContinue()
    this.#isWaiting = false
    return requestBody(this, this.#limits)
  }

  inform(status: number, headers: HeaderList): void {
    // Only hints are worth passing on, and only to who has not got an answer yet.
    if (status !== 103 || this.isHeadSent || this.#hasEnded || !this.#takesInterim) return
    const link = fieldOf(headers, 'link')
    if (link !== undefined && !this.channel.isGone) this.channel.sendHints(link)
  }

  onEnd(callback: (isAborted: boolean) => void): void {
    if (this.#hasEnded || this.channel.isGone) callback(true)
    else if (this.#callbacks === undefined) this.#callbacks = [callback]
    else this.#callbacks.push(callback)
  }

  /** For the channel to call: the answer is sent, or nobody waits for it any more. */
  end(isAborted: boolean): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const callbacks = this.#callbacks
    this.#callbacks = undefined
    if (callbacks === undefined) return
    for (const callback of callbacks) callback(isAborted)
  }
}
