/**
 * The decision API: `POST /v1/check` answers what the limits of the policy say to a request that
 * somebody else has. It has a listener and a token of its own. A denial is an answer with 200.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { type HttpDoor, openDoor, send } from '../http-door.ts'
import type { Overload } from '../overload/overload.ts'
import { retryAfterSeconds } from '../overload/retry-after.ts'
import type { Priority } from '../policy/priority.ts'
import { type Check, type CheckResult, check } from './check-schema.ts'
import { openApiDocument } from './openapi.ts'

export interface DecisionApiOptions {
  readonly host: string
  readonly port: number
  readonly token: string
  readonly batchMax: number
  readonly bodyBytesMax: number
  /** Of the program, for the document. */
  readonly version: string
  /** The controller of this process. */
  readonly overload: Overload
  /** The highest priority that a check can have, and the one that these checks have. */
  priorityMax(): Priority
  priorityOf(checks: readonly Check[]): Priority
  /** Throws where it cannot be judged; charges nothing before what it returns is called. */
  judge(check: Check): () => Promise<CheckResult>
}

const OVERLOADED = 'The decision API is overloaded.'

/** What is wrong with a request; the message is for the caller. */
export class BadRequest extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export function startDecisionApi(options: DecisionApiOptions): Promise<HttpDoor> {
  const isAuthorised = tokenCheck(options.token)
  const document = JSON.stringify(openApiDocument(options.version, options.batchMax))
  return openDoor((request, response) => {
    answer(request, options, isAuthorised, document).then(
      (body) => send(response, 200, 'application/json', body),
      (error: unknown) => sendProblem(response, error),
    )
  }, options)
}

/** Everything but the two public documents needs the token, also paths that do not exist. */
async function answer(
  request: IncomingMessage,
  options: DecisionApiOptions,
  isAuthorised: (header: string | undefined) => boolean,
  document: string,
): Promise<string> {
  const route = `${request.method} ${request.url}`
  if (route === 'GET /health') return '{"status":"ok"}'
  if (route === 'GET /openapi.json') return document
  const { overload } = options
  const possible = options.priorityMax()
  if (!overload.isCalm && !overload.admits(possible)) throw new BadRequest(503, OVERLOADED)
  overload.enter()
  try {
    return await checked(request, options, isAuthorised, possible)
  } finally {
    overload.leave()
  }
}

/** The priority of a check is known once its body is read; before, the highest possible counts. */
async function checked(
  request: IncomingMessage,
  options: DecisionApiOptions,
  isAuthorised: (header: string | undefined) => boolean,
  possible: Priority,
): Promise<string> {
  const { overload } = options
  if (!isAuthorised(request.headers.authorization)) {
    throw new BadRequest(401, 'Send the token of the decision API as Authorization: Bearer.')
  }
  if (request.url !== '/v1/check') throw new BadRequest(404, 'There is POST /v1/check.')
  if (request.method !== 'POST') throw new BadRequest(405, 'Use POST.')
  const { checks, isBatch } = parseBody(await bodyOf(request, options.bodyBytesMax), options)
  if (!overload.isCalm) {
    const priority = options.priorityOf(checks)
    if (priority !== possible && !overload.admits(priority)) throw new BadRequest(503, OVERLOADED)
  }
  const judges = checks.map((one, at) => prepared(one, isBatch ? `checks[${at}].` : '', options))
  const results = await Promise.all(judges.map((judge) => judge()))
  return JSON.stringify(isBatch ? { results } : results[0])
}

function prepared(one: Check, place: string, { judge }: DecisionApiOptions) {
  try {
    return judge(one)
  } catch (error) {
    if (!(error instanceof BadRequest)) throw error
    throw new BadRequest(error.status, `${place}${error.message}`)
  }
}

const shapes = ['request', 'limits', 'checks']

function parseBody(
  text: string,
  { batchMax }: DecisionApiOptions,
): { readonly checks: readonly Check[]; readonly isBatch: boolean } {
  const value = parseJson(text)
  const isMapping = typeof value === 'object' && value !== null
  if (!isMapping || !shapes.some((name) => name in value)) {
    const allowed = 'a mapping with one of request, limits and checks'
    throw new BadRequest(400, `body: is not allowed; allowed: ${allowed}`)
  }
  const isBatch = 'checks' in value
  const schema = isBatch ? z.strictObject({ checks: z.array(check).min(1).max(batchMax) }) : check
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw new BadRequest(400, issuesOf(parsed.error))
  const { data } = parsed
  return 'checks' in data ? { checks: data.checks, isBatch } : { checks: [data], isBatch }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BadRequest(400, 'The body is not JSON.')
  }
}

/** The first few, each with its place. */
function issuesOf(error: z.ZodError): string {
  const shown = flat(error.issues)
    .slice(0, 5)
    .map(({ path, message }) => {
      const place = path.map((part) =>
        typeof part === 'number' ? `[${part}]` : `.${String(part)}`,
      )
      return `${place.join('').replace(/^\./, '') || 'body'}: ${message}`
    })
  return shown.join('; ')
}

/** Where there are two shapes, what is wrong with the one that was more nearly meant. */
function flat(issues: readonly z.core.$ZodIssue[]): { path: PropertyKey[]; message: string }[] {
  return issues.flatMap((issue) => {
    if (issue.code !== 'invalid_union' || issue.errors.length === 0) return issue
    const [nearest = []] = [...issue.errors].sort((one, other) => one.length - other.length)
    return flat(nearest).map(({ path, message }) => ({ path: [...issue.path, ...path], message }))
  })
}

async function bodyOf(request: IncomingMessage, bytesMax: number): Promise<string> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes > bytesMax) throw new BadRequest(413, `The body has more than ${bytesMax} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** Digests have one length, and comparing them tells nothing of the token. */
function tokenCheck(token: string): (header: string | undefined) => boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = digest(token)
  return (header = '') => {
    // https://www.rfc-editor.org/rfc/rfc9110#section-11.1: the scheme in any case.
    const sent = /^bearer +(.*)$/i.exec(header)?.[1]
    return sent !== undefined && timingSafeEqual(digest(sent), expected)
  }
}

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  404: 'Not Found',
  405: 'Method Not Allowed',
  413: 'Content Too Large',
  503: 'Service Unavailable',
}

function sendProblem(response: ServerResponse, error: unknown): void {
  const status = error instanceof BadRequest ? error.status : 500
  const title = titles[status] ?? 'Internal Server Error'
  const detail = error instanceof BadRequest ? error.message : 'The decision could not be made.'
  if (status === 401) response.setHeader('WWW-Authenticate', 'Bearer')
  if (status === 405) response.setHeader('Allow', 'POST')
  // What is left of a body that nobody wants is not waited for.
  if (status === 413) response.setHeader('Connection', 'close')
  if (status === 503) response.setHeader('Retry-After', String(retryAfterSeconds()))
  const body = JSON.stringify({ title, status, detail })
  send(response, status, 'application/problem+json', body)
}
