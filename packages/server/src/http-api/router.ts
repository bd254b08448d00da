/**
 * A small router: a table of paths and methods, bounded bodies, and problem details for errors.
 * A segment of a path such as `{id}` stands for any text of letters, digits, `_`, `.`, `~` and `-`.
 */

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { MaybePromise } from 'tidegate'
import { alternativeNames } from '../config/alternative-names.ts'
import { requestIdFrom } from '../observability/request-id.ts'
import { ApiError, PROBLEM_TYPE, problemResponse } from './api-error.ts'
import type { ApiRequest, ApiResponse, StreamBody } from './messages.ts'
import { sendLines } from './send-lines.ts'

/** A body in chunks that are smaller on average costs far more time than its bytes. */
const CHUNK_BYTES_MIN = 64

/** Chunks of any size: a client may write a document in small parts. */
const SMALL_CHUNKS_MAX = 1_000

export type ApiHandler = (request: ApiRequest) => MaybePromise<ApiResponse>

/** Handlers by method; `any` is for all methods. */
export type Methods = Readonly<
  Partial<Record<'GET' | 'POST' | 'PUT' | 'DELETE' | 'any', ApiHandler>>
>

export interface RouterOptions {
  /** By path. */
  readonly routes: Readonly<Record<string, Methods>>
  /** Routes that `guard` does not protect. */
  readonly publicRoutes?: Readonly<Record<string, Methods>>
  /** Runs around everything but `publicRoutes`, also around paths that do not exist. */
  readonly guard?: (request: ApiRequest, next: () => Promise<ApiResponse>) => Promise<ApiResponse>
  /** The response for an error. Default: problem details. */
  readonly failed?: (error: unknown) => ApiResponse
}

export function router(options: RouterOptions): RequestListener {
  const { guard, failed = problemResponse } = options
  const find = finder(options.routes)
  const publicRoutes = new Map(Object.entries(options.publicRoutes ?? {}))
  const answer = async (request: ApiRequest): Promise<ApiResponse> => {
    const open = publicRoutes.get(request.path)
    if (open !== undefined) return handlerOf(open, request)(request)
    const next = async () => {
      const { methods, params } = find(request.path)
      return handlerOf(methods, request)({ ...request, params })
    }
    return guard === undefined ? next() : guard(request, next)
  }
  return (incoming, response) => {
    const request = requestOf(incoming)
    const { requestId } = request
    answer(request).then(
      (found) => send(incoming, response, found, requestId),
      (error: unknown) => send(incoming, response, failed(error), requestId),
    )
  }
}

interface Found {
  readonly methods: Methods | undefined
  readonly params: Readonly<Record<string, string>>
}

const noParams: Found['params'] = Object.freeze({})

/** Plain paths win over those with a parameter, and are found by one look-up. */
function finder(routes: RouterOptions['routes']): (path: string) => Found {
  const plain = new Map(Object.entries(routes).filter(([path]) => !path.includes('{')))
  const patterns = Object.entries(routes)
    .filter(([path]) => path.includes('{'))
    .map(([path, methods]) => ({ pattern: patternOf(path), methods }))
  return (path) => {
    const methods = plain.get(path)
    if (methods !== undefined) return { methods, params: noParams }
    for (const one of patterns) {
      const found = one.pattern.exec(path)
      if (found !== null) return { methods: one.methods, params: { ...found.groups } }
    }
    return { methods: undefined, params: noParams }
  }
}

function patternOf(path: string): RegExp {
  const text = path.replace(/[.]/g, '\\.').replace(/\{(\w+)\}/g, '(?<$1>[A-Za-z0-9_.~-]{1,64})')
  return new RegExp(`^${text}$`)
}

/** Throws if the path or the method is not known. */
function handlerOf(methods: Methods | undefined, { method }: ApiRequest): ApiHandler {
  if (methods === undefined) throw new ApiError(404, 'There is no such path.')
  const handler = methods[method as keyof Methods] ?? methods.any
  if (handler !== undefined) return handler
  const allowed = Object.keys(methods).join(', ')
  throw new ApiError(405, `Use ${allowed}.`, { Allow: allowed })
}

function requestOf(incoming: IncomingMessage): ApiRequest {
  const { method = '', url = '/', headers, socket } = incoming
  const queryAt = url.indexOf('?')
  return {
    method,
    path: queryAt < 0 ? url : url.slice(0, queryAt),
    query: new URLSearchParams(queryAt < 0 ? '' : url.slice(queryAt)),
    params: noParams,
    headers,
    requestId: requestIdFrom(headers['x-request-id']),
    remoteAddress: socket.remoteAddress,
    isEncrypted: socket instanceof TLSSocket,
    certificateNames: socket instanceof TLSSocket ? verifiedNames(socket) : [],
    text: (bytesMax) => textOf(incoming, bytesMax),
  }
}

function verifiedNames(socket: TLSSocket): readonly string[] {
  if (!socket.authorized) return []
  return alternativeNames(socket.getPeerCertificate().subjectaltname ?? '')
}

/**
 * Not an asynchronous iterator, which takes a turn of the event loop for each chunk: one client
 * with chunks of a byte would stop the process for seconds.
 */
function textOf(incoming: IncomingMessage, bytesMax: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      chunks.push(chunk)
      const isSmall = bytes < chunks.length * CHUNK_BYTES_MIN
      // Closes the connection, because reading the other chunks costs as much as these.
      if (isSmall && chunks.length > SMALL_CHUNKS_MAX) incoming.destroy()
      else if (bytes > bytesMax) {
        // The connection stays open, so that the response can be sent.
        incoming.off('data', onData)
        reject(new ApiError(413, `The body has more than ${bytesMax} bytes.`))
      }
    }
    incoming.on('data', onData)
    incoming.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
    const onClose = () => reject(new ApiError(400, 'The body is incomplete.'))
    incoming.once('error', onClose)
    // The client may have disconnected while the handler waited.
    if (incoming.destroyed) onClose()
    else incoming.once('close', onClose)
  })
}

function send(
  incoming: IncomingMessage,
  response: ServerResponse,
  found: ApiResponse,
  requestId: string,
): void {
  if (response.headersSent) return
  const { status, type, body, headers } = found
  // The rest of a body that was not read would be taken for the next request.
  if (!incoming.complete) response.setHeader('connection', 'close')
  const own = {
    'content-type': type,
    'x-content-type-options': 'nosniff',
    'x-request-id': requestId,
  }
  response.writeHead(status, { ...headers, ...own })
  if (typeof body === 'string') response.end(type === PROBLEM_TYPE ? marked(body, requestId) : body)
  else if (Buffer.isBuffer(body)) response.end(body)
  else if ('start' in body) sendStream(response, body)
  else sendLines(response, body)
}

/** Adds the id to problem details, which clients report and log. */
function marked(problem: string, requestId: string): string {
  return `${problem.slice(0, -1)},"request_id":"${requestId}"}`
}

function sendStream(response: ServerResponse, body: StreamBody): void {
  const onClose = body.start({
    write: (text) => void response.write(text),
    get waitingBytes() {
      return response.writableLength
    },
    end: () => void response.end(),
    cut: () => response.destroy(),
  })
  // The client may have disconnected already.
  if (response.destroyed) onClose()
  else response.once('close', onClose)
}
