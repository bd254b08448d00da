/**
 * The request and the response as the stages of the gateway see them. They are plain values of our
 * own, so that no stage knows how bytes travel: a listener makes requests out of them and writes
 * responses, an upstream the other way round.
 *
 * Header fields are flat lists, name, value, name, value, as both ends of the wire want them. Names
 * are in lower case. Lists of requests have every name once.
 */

import type { Duplex, Readable } from 'node:stream'
import type { Priority } from '../policy/priority.ts'
import type { Identity, RequestFacts } from '../policy/request-facts.ts'
import type { Verdict } from '../policy/verdict.ts'
import type { Route } from './stages/route.ts'

export type MaybePromise<T> = T | Promise<T>

export type HeaderList = string[]

export interface GatewayRequest extends RequestFacts {
  /** With its question mark, or empty. Never part of what is matched. */
  readonly query: string
  /** What the client sent, without what concerns only its connection. */
  readonly headers: HeaderList
  /** What it sent under names that proxies set, to be believed only of trusted ones. */
  readonly forwarded: HeaderList
  /** The authority that the client asked for. */
  readonly host: string
  /** Whose request it is where clients share something: its address, of IPv6 the network. */
  readonly client: string
  readonly connection: ClientConnection
  identity: Identity
  /** The protocol that the client wants to switch to, such as `websocket`. */
  readonly upgrade: string | undefined
  /** In bytes; undefined where the client did not say or there is none. */
  readonly bodyBytes: number | undefined
  readonly hasBody: boolean
  /**
   * The body, to be asked for once: all of a small one, a larger one once its beginning is there.
   * It tells the client to go on where it waits for that. Rejects where the body is too large, too
   * slow or breaks off.
   */
  body(): Promise<Buffer | Readable>
  /** Sends an answer that is not final, such as 103; where the protocol has no such, nothing. */
  inform(status: number, headers: HeaderList): void
  /** Calls once when the response has been sent, or at once if the client has gone. */
  onEnd(callback: (isAborted: boolean) => void): void

  /** What makes it unfit to go on, found while it was read. */
  readonly problem: GatewayResponse | undefined

  /** From here on, what stages have found out. */
  isExempt: boolean
  /** True for a critical request in an overload: it goes before others that wait. */
  isUrgent: boolean
  /** The priority by which the request was refused; undefined if it was not. */
  priority: Priority | undefined
  /** How long the next request of its connection is not read, where requests come in a row. */
  holdMs: number
  verdict: Verdict | undefined
  /** How long the decision took. */
  judgedMs: number
  route: Route | undefined
  /** Path and query as the upstream gets them. */
  target: string
}

/** What all requests of one connection have in common. */
export interface ClientConnection {
  readonly peer: string | undefined
  /** The same as in `Forwarded`: https://www.rfc-editor.org/rfc/rfc7239#section-6 */
  readonly forwardedNode: string
  readonly isTrusted: boolean
  readonly isEncrypted: boolean
  /** Whether its last request was refused because of overload. */
  wasShed: boolean
  /** Of a client certificate that was verified. */
  readonly certificate: ClientCertificate | undefined
}

export interface ClientCertificate {
  readonly commonName: string | undefined
  readonly names: readonly string[]
  readonly fingerprint: string
}

export interface GatewayResponse {
  status: number
  statusText: string
  headers: HeaderList
  /** Complete, or still arriving. */
  body: string | Buffer | BodySource | undefined
  /** The connection to the upstream, where the answer was to switch protocols. */
  tunnel: Duplex | undefined
  /** Of an answer that the gateway gave itself: what was wrong, for logs. */
  problem: string | undefined
  /** Whether it is given many times, so that it must not change and is worth keeping ready. */
  isShared: boolean
  /** All of it as it goes over the wire, which a listener keeps with a shared one. */
  wireText: string | undefined
}

/** A body that is still arriving. */
export interface BodySource {
  /** All of it, where it is here already and no more than that; there is nothing to pipe then. */
  whole(bytesMax: number): Buffer | undefined
  /** Hands over what is there and all that comes. To be called once. */
  pipe(sink: BodySink): void
  /** The sink takes more again. */
  resume(): void
}

export interface BodySink {
  /** False where it has enough, until the source is resumed. */
  write(chunk: Buffer): boolean
  /** The last piece, which may be all of it. */
  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void
  /** The body breaks off here. */
  fail(): void
}

/** Calls `next` to go on, or answers itself. */
export type Stage = (request: GatewayRequest, next: Handler) => MaybePromise<GatewayResponse>

export type Handler = (request: GatewayRequest) => MaybePromise<GatewayResponse>

/** Stages in the order in which they see a request; the last one has to answer. */
export function pipeline(stages: readonly Stage[]): Handler {
  const unanswered: Handler = () => {
    throw new Error('no stage has answered')
  }
  return stages.reduceRight<Handler>((next, stage) => (request) => stage(request, next), unanswered)
}

export function responseOf(
  status: number,
  headers: HeaderList,
  body: GatewayResponse['body'],
): GatewayResponse {
  return {
    status,
    statusText: '',
    headers,
    body,
    tunnel: undefined,
    problem: undefined,
    isShared: false,
    wireText: undefined,
  }
}

/** Goes on at once where it can: most answers are there already. */
export function whenDone<T, U>(value: MaybePromise<T>, goOn: (value: T) => U): MaybePromise<U> {
  return value instanceof Promise ? value.then(goOn) : goOn(value)
}

export function fieldOf(headers: HeaderList, name: string): string | undefined {
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === name) return headers[at + 1]
  }
  return undefined
}

/** Instead of whatever there is under that name. */
export function setField(headers: HeaderList, name: string, value: string): void {
  removeField(headers, name)
  headers.push(name, value)
}

export function removeField(headers: HeaderList, name: string): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at] === name) headers.splice(at, 2)
  }
}
