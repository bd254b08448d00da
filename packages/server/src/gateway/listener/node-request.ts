/** A request of node:http or node:http2 as the stages see it. */

import { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'
import type { Readable } from 'node:stream'
import { anonymous, type Identity } from '../../policy/request-facts.ts'
import type { Verdict } from '../../policy/verdict.ts'
import type { CanonicalTarget } from '../canonical-path.ts'
import { fieldOf, type GatewayRequest, type GatewayResponse, type HeaderList } from '../message.ts'
import type { RequestHead } from '../request-head.ts'
import type { Route } from '../stages/route.ts'
import type { Connection, LiveRequest } from './connections.ts'
import { type BodyLimits, requestBody } from './request-body.ts'

export type Incoming = IncomingMessage | Http2ServerRequest
export type Outgoing = ServerResponse | Http2ServerResponse

export interface RequestParts {
  readonly incoming: Incoming
  readonly outgoing: Outgoing
  readonly head: RequestHead
  readonly host: string
  readonly target: CanonicalTarget
  readonly connection: Connection
  readonly ip: string | undefined
  readonly client: string
  readonly upgrade: string | undefined
  readonly hasBody: boolean
  /** Whether the client waits for a word before it sends the body. */
  readonly isWaiting: boolean
  readonly limits: BodyLimits
  readonly problem: GatewayResponse | undefined
}

export class NodeRequest implements GatewayRequest, LiveRequest {
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
  readonly outgoing: Outgoing
  readonly incoming: Incoming
  readonly problem: GatewayResponse | undefined
  identity: Identity = anonymous
  isExempt = false
  verdict: Verdict | undefined = undefined
  judgedMs = 0
  route: Route | undefined = undefined
  target = ''
  isHeadSent = false
  readonly #limits: BodyLimits
  #isWaiting: boolean
  #hasEnded = false
  #callbacks: ((isAborted: boolean) => void)[] | undefined = undefined

  constructor(parts: RequestParts) {
    const { head, incoming } = parts
    this.method = incoming.method ?? ''
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
    this.incoming = incoming
    this.outgoing = parts.outgoing
    this.problem = parts.problem
    this.#limits = parts.limits
    this.#isWaiting = parts.isWaiting
  }

  header(name: string): string | undefined {
    return name === 'host' ? this.host : fieldOf(this.headers, name)
  }

  body(): Promise<Buffer | Readable> {
    if (this.#isWaiting && !this.isHeadSent) this.outgoing.writeContinue()
    this.#isWaiting = false
    return requestBody(this.incoming, this.#limits)
  }

  inform(status: number, headers: HeaderList): void {
    const { outgoing } = this
    // Only hints are worth passing on, and only to who has not got an answer yet.
    if (status !== 103 || this.isHeadSent || hasGone(outgoing)) return
    const link = fieldOf(headers, 'link')
    if (link === undefined || this.incoming.httpVersion === '1.0') return
    try {
      outgoing.writeEarlyHints({ link })
    } catch {
      // A hint that is not well-formed is none; the answer still comes.
    }
  }

  onEnd(callback: (isAborted: boolean) => void): void {
    const { outgoing } = this
    if (this.#hasEnded || this.connection.isClosed || hasGone(outgoing)) {
      callback(true)
      return
    }
    if (this.#callbacks !== undefined) {
      this.#callbacks.push(callback)
      return
    }
    this.#callbacks = [callback]
    this.connection.live.add(this)
    outgoing.once('close', () => this.end(!outgoing.writableEnded || !isFinished(outgoing)))
  }

  end(isAborted: boolean): void {
    this.#hasEnded = true
    this.connection.live.delete(this)
    const callbacks = this.#callbacks ?? []
    this.#callbacks = []
    for (const callback of callbacks) callback(isAborted)
  }
}

/** A response of HTTP/2 does not say so itself. */
export function hasGone(outgoing: Outgoing): boolean {
  return outgoing instanceof ServerResponse ? outgoing.destroyed : outgoing.stream.destroyed
}

function isFinished(outgoing: Outgoing): boolean {
  return outgoing instanceof ServerResponse ? outgoing.writableFinished : !outgoing.stream?.aborted
}

export function isHttp1(incoming: Incoming): incoming is IncomingMessage {
  return incoming instanceof IncomingMessage
}
