/** The id of a request, and responses that carry it. */

import { parseTraceparent } from '../observability/trace-context.ts'
import { createContextKey } from './context.ts'
import { type HeaderList, setField } from './header-list.ts'
import type { GatewayRequest, GatewayResponse } from './message.ts'
import { requestTrace } from './request-trace.ts'

/** Empty until the stage for it has run. */
export const requestId = createContextKey('')

export function requestIdOf({ context }: GatewayRequest): string | undefined {
  return context.get(requestId) || undefined
}

/** The trace of the request: that of the gateway, or the one that the client has begun. */
export function traceIdOf(request: GatewayRequest): string | undefined {
  const trace = request.context.get(requestTrace)
  return (trace ?? parseTraceparent(request.header('traceparent') ?? ''))?.traceId
}

/** Adds the id to the fields, and to the body if the gateway itself responds. */
export function addRequestId(response: GatewayResponse, header: string, id: string): void {
  setField(response.headers, header, id)
  const { body, problem } = response
  if (problem !== undefined && typeof body === 'string') setBody(response, bodyStart(body), id)
}

/** A copy of a response that many requests get. */
export function copyWithId(shared: GatewayResponse, header: string, id: string): GatewayResponse {
  const copy = { ...shared, headers: [...shared.headers], isShared: false, wireText: undefined }
  setField(copy.headers, header, id)
  if (typeof copy.body === 'string') setBody(copy, bodyStart(copy.body), id)
  return copy
}

/**
 * A response that many requests get, with the id of one of them. Its text is the same for all but
 * for the id, so it is made once and kept in parts: in a flood of refusals, that is most of the
 * work for a response. Only for ids that this process has made, which occur nowhere else in it.
 */
export class MarkedResponse implements GatewayResponse {
  status: number
  statusText: string
  tunnel = undefined
  problem: string | undefined
  readonly isShared = true
  readonly #template: Template
  readonly #id: string

  constructor(shared: GatewayResponse, header: string, id: string) {
    this.status = shared.status
    this.statusText = shared.statusText
    this.problem = shared.problem
    this.#template = templateOf(shared, header)
    this.#id = id
  }

  get headers(): HeaderList {
    const { headers, idAt } = this.#template
    const own = [...headers]
    own[idAt] = this.#id
    return own
  }

  get body(): string {
    return `${this.#template.bodyStart}${this.#id}${BODY_END}`
  }

  get wireText(): string | undefined {
    return this.#template.wireParts?.join(this.#id)
  }

  set wireText(text: string | undefined) {
    this.#template.wireParts = text?.split(this.#id)
  }
}

interface Template {
  readonly headers: HeaderList
  /** The place of the id in `headers`. */
  readonly idAt: number
  readonly bodyStart: string
  wireParts: readonly string[] | undefined
}

/** Shared responses live for a second, and their templates with them. */
const templates = new WeakMap<GatewayResponse, Template>()

const BODY_END = '"}'

/** The length of a UUID. */
const ID_LENGTH = 36

function templateOf(shared: GatewayResponse, header: string): Template {
  const known = templates.get(shared)
  if (known !== undefined) return known
  const start = typeof shared.body === 'string' ? bodyStart(shared.body) : ''
  const headers = [...shared.headers]
  setField(headers, 'content-length', String(start.length + ID_LENGTH + BODY_END.length))
  setField(headers, header, '')
  const made = { headers, idAt: headers.length - 1, bodyStart: start, wireParts: undefined }
  templates.set(shared, made)
  return made
}

/** Problem details without their last brace, up to the id. */
function bodyStart(body: string): string {
  return `${body.slice(0, -1)},"request_id":"`
}

function setBody(response: GatewayResponse, start: string, id: string): void {
  const body = `${start}${id}${BODY_END}`
  response.body = body
  setField(response.headers, 'content-length', String(body.length))
}
