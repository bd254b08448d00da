/**
 * Holds the response of a handler of node:http until it is complete, so that it can be kept before
 * its first byte is sent. It replaces the methods of one `ServerResponse`, below every way to send:
 * `end`, `write`, `pipe`, `sendFile`.
 *
 * A response is sent as it comes, and not kept, if it is too large, is an event stream, has
 * trailers, or if the handler flushes its header fields.
 */

import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Execution, Finished } from '../execution.ts'
import { keptFields } from '../kept-fields.ts'
import type { NotKept } from '../stored-response.ts'
import { sendKept, sendProblem } from './send-kept.ts'

export interface HoldOptions {
  readonly execution: Execution
  readonly bytesMax: number
  readonly keptHeaders: ReadonlySet<string>
}

/** `holding`: nothing was sent. `deciding`: complete, and being kept. `passing`: not held. */
type State = 'holding' | 'deciding' | 'passing'

type Callback = (error?: Error | null) => void

export function holdResponse(response: ServerResponse, options: HoldOptions): void {
  new HeldResponse(response, options)
}

class HeldResponse {
  readonly #response: ServerResponse
  readonly #options: HoldOptions
  readonly #write: ServerResponse['write']
  readonly #end: ServerResponse['end']
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #hasHead = false
  #hasTrailers = false
  #state: State = 'holding'

  constructor(response: ServerResponse, options: HoldOptions) {
    this.#response = response
    this.#options = options
    this.#write = response.write
    this.#end = response.end
    this.#replaceMethods()
    response.once('close', () => this.#onClose())
  }

  #replaceMethods(): void {
    const response = this.#response
    const { writeHead, flushHeaders, addTrailers } = response
    const held = this
    response.writeHead = function heldHead(this: ServerResponse, ...args: unknown[]) {
      if (held.#state === 'passing') return Reflect.apply(writeHead, response, args)
      held.#setHead(args)
      return response
    } as ServerResponse['writeHead']
    response.flushHeaders = () => {
      if (held.#state === 'holding') held.#pass('streamed')
      if (held.#state === 'passing') flushHeaders.call(response)
    }
    response.addTrailers = (trailers) => {
      held.#hasTrailers = true
      addTrailers.call(response, trailers)
    }
    response.write = ((...args: unknown[]) => held.#onWrite(args)) as ServerResponse['write']
    response.end = ((...args: unknown[]) => held.#onEnd(args)) as ServerResponse['end']
    Object.defineProperties(response, {
      headersSent: shadowed(response, 'headersSent', () =>
        held.#state === 'passing' ? undefined : held.#hasHead || held.#state === 'deciding',
      ),
      writableEnded: shadowed(response, 'writableEnded', () =>
        held.#state === 'deciding' ? true : undefined,
      ),
    })
  }

  /** Like `writeHead`, which sends the head with the first byte of the body. */
  #setHead(args: readonly unknown[]): void {
    const response = this.#response
    const [status, ...rest] = args
    response.statusCode = Number(status)
    if (typeof rest[0] === 'string') response.statusMessage = rest[0]
    const fields = (typeof rest[0] === 'string' ? rest[1] : rest[0]) as HeadFields | undefined
    for (const [name, value] of entriesOf(fields)) response.setHeader(name, value)
    this.#hasHead = true
  }

  #onWrite(args: readonly unknown[]): boolean {
    if (this.#state === 'passing') return Reflect.apply(this.#write, this.#response, args)
    if (this.#state === 'deciding') return false
    const { chunk, callback } = argumentsOf(args)
    this.#hasHead = true
    this.#add(chunk)
    const reason = this.#reasonToPass()
    if (reason === undefined) {
      if (callback !== undefined) process.nextTick(callback)
      return true
    }
    return this.#pass(reason, callback)
  }

  #onEnd(args: readonly unknown[]): ServerResponse {
    const response = this.#response
    if (this.#state === 'passing') return Reflect.apply(this.#end, response, args)
    if (this.#state === 'deciding') return response
    const { chunk, callback } = argumentsOf(args)
    this.#add(chunk)
    const reason = this.#hasTrailers ? 'trailers' : this.#reasonToPass()
    if (reason !== undefined) {
      this.#pass(reason)
      return Reflect.apply(this.#end, response, callback === undefined ? [] : [callback])
    }
    this.#state = 'deciding'
    const body = Buffer.concat(this.#chunks)
    const fields = keptFields(Object.entries(response.getHeaders()), this.#options.keptHeaders)
    const kept = { status: response.statusCode, headers: fields, body }
    this.#options.execution.finish(kept).then((finished) => this.#send(finished, body, callback))
    return response
  }

  #send(finished: Finished, body: Buffer, callback: Callback | undefined): void {
    const response = this.#response
    this.#state = 'passing'
    if (finished.kind !== 'own') {
      for (const name of response.getHeaderNames()) response.removeHeader(name)
      if (finished.kind === 'other') sendKept(response, finished.response)
      else sendProblem(response, finished.problem)
      callback?.()
      return
    }
    // A status without a body must not get the field Content-Length either.
    const chunk = body.length === 0 ? [] : [body]
    Reflect.apply(this.#end, response, [...chunk, ...(callback === undefined ? [] : [callback])])
  }

  #add(chunk: Buffer | undefined): void {
    if (chunk === undefined) return
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
  }

  #reasonToPass(): NotKept | undefined {
    if (this.#bytes > this.#options.bytesMax) return 'too-large'
    const type = String(this.#response.getHeader('content-type') ?? '')
    return /^text\/event-stream\b/i.test(type) ? 'streamed' : undefined
  }

  /** Sends what is held, and everything that follows. */
  #pass(reason: NotKept, callback?: Callback): boolean {
    const response = this.#response
    this.#state = 'passing'
    void this.#options.execution.finishUnkept(response.statusCode, reason)
    if (this.#bytes === 0) return true
    const bytes = Buffer.concat(this.#chunks.splice(0))
    return Reflect.apply(this.#write, response, callback ? [bytes, callback] : [bytes])
  }

  /**
   * The client has disconnected. A handler that has not begun its response goes on, and its
   * response is kept. One that was interrupted in the middle never completes it.
   */
  #onClose(): void {
    if (this.#state !== 'holding' || !this.#hasHead) return
    // A handler that ends its response in this turn of the event loop has completed it.
    setImmediate(() => {
      if (this.#state === 'holding') void this.#options.execution.release('unknown')
    })
  }
}

type HeadFields = OutgoingHttpHeaders | OutgoingHttpHeader[]

type Entry = [name: string, value: string | number | readonly string[]]

/** The three forms of header fields that `writeHead` takes. */
function entriesOf(fields: HeadFields | undefined): readonly Entry[] {
  if (fields === undefined || fields === null) return []
  if (!Array.isArray(fields)) {
    return Object.entries(fields).flatMap(([name, value]): Entry[] =>
      value === undefined ? [] : [[name, value]],
    )
  }
  if (Array.isArray(fields[0])) return fields as unknown as readonly Entry[]
  const values = new Map<string, string[]>()
  for (let at = 0; at < fields.length; at += 2) {
    const name = String(fields[at])
    values.set(name, [...(values.get(name) ?? []), String(fields[at + 1])])
  }
  return [...values].map(([name, all]) => [name, all.length === 1 ? String(all[0]) : all])
}

/** `write` and `end` take a chunk, its encoding and a callback, each of them optional. */
function argumentsOf(args: readonly unknown[]) {
  const callback = args.find((one) => typeof one === 'function') as Callback | undefined
  const [data, encoding] = args
  if (data === undefined || data === null || typeof data === 'function') {
    return { chunk: undefined, callback }
  }
  if (typeof data !== 'string') return { chunk: Buffer.from(data as Uint8Array), callback }
  const name = typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8'
  return { chunk: Buffer.from(data, name), callback }
}

/** A property that `read` decides, unless that is undefined. */
function shadowed(
  response: ServerResponse,
  name: 'headersSent' | 'writableEnded',
  read: () => boolean | undefined,
): PropertyDescriptor {
  const before = propertyOf(response, name)
  return {
    configurable: true,
    get: () => read() ?? Boolean(before?.get?.call(response) ?? before?.value),
  }
}

function propertyOf(object: object, name: string): PropertyDescriptor | undefined {
  for (let at: object | null = object; at !== null; at = Object.getPrototypeOf(at)) {
    const found = Object.getOwnPropertyDescriptor(at, name)
    if (found !== undefined) return found
  }
  return undefined
}
