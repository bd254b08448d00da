/**
 * Reads the responses of a server, one after the other. It throws if a response is not valid.
 * https://www.rfc-editor.org/rfc/rfc9112#section-6.3
 */

import { fieldOf, type HeaderList } from '../../header-list.ts'
import { ChunkedReader } from '../../http1/chunked-reader.ts'
import { type ResponseHead, readHead } from './read-response-head.ts'
import { invalidResponse, responseErrors, upstreamError } from './upstream-error.ts'

export interface ResponseEvents {
  /** Also called for interim responses. */
  onHead(head: ResponseHead): void
  /** The bytes are valid only during the call. */
  onData(chunk: Buffer): void
}

export interface Expected {
  /** A response to HEAD has no body, whatever length it declares. */
  readonly isHead: boolean
  /** The protocol that the request asked to switch to. */
  readonly upgrade: string | undefined
}

/** Servers send a few KB; more would only fill memory. */
const HEAD_BYTES_MAX = 64 * 1_024

/** Servers send one or two interim responses; more would only keep a client waiting. */
export const INTERIM_RESPONSES_MAX = 16

const EMPTY_LINE = Buffer.from('\r\n\r\n')

type State = 'head' | 'counted' | 'chunked' | 'until-close' | 'done' | 'switched'

export class ResponseReader {
  readonly #events: ResponseEvents
  #state: State = 'done'
  #expected: Expected = { isHead: false, upgrade: undefined }
  /** The beginning of a head. */
  #begun: Buffer | undefined
  #interimResponses = 0
  #leftBytes = 0
  #chunked: ChunkedReader | undefined

  constructor(events: ResponseEvents) {
    this.#events = events
  }

  /** True once the whole response was read. */
  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** True if the bytes that follow are of another protocol. */
  get hasSwitched(): boolean {
    return this.#state === 'switched'
  }

  get trailers(): HeaderList | undefined {
    return this.#chunked?.trailers
  }

  /** To be called before each response. */
  expect(expected: Expected): void {
    this.#state = 'head'
    this.#expected = expected
    this.#interimResponses = 0
    this.#chunked = undefined
  }

  /** Returns where the response ended, or the length of the bytes. */
  read(bytes: Buffer): number {
    let at = 0
    while (at < bytes.length) {
      if (this.#state === 'head') at = this.#readHead(bytes, at)
      else if (this.#state === 'counted') at = this.#readCounted(bytes, at)
      else if (this.#state === 'chunked') at = this.#readChunked(bytes, at)
      else if (this.#state === 'until-close') {
        this.#events.onData(at === 0 ? bytes : bytes.subarray(at))
        at = bytes.length
      } else break
    }
    return at
  }

  /** To be called when the server closes its side. Returns true if that completes a response. */
  readEnd(): boolean {
    if (this.#state !== 'until-close') return false
    this.#state = 'done'
    return true
  }

  #readHead(bytes: Buffer, start: number): number {
    const begun = this.#begun
    if (begun !== undefined) return this.#readRestOfHead(begun, bytes, start)
    const end = bytes.indexOf(EMPTY_LINE, start)
    if (end === -1) {
      this.#keep(Buffer.from(bytes.subarray(start)))
      return bytes.length
    }
    if (end - start > HEAD_BYTES_MAX) throw headTooLarge()
    this.#useHead(bytes.toString('latin1', start, end))
    return end + EMPTY_LINE.length
  }

  #readRestOfHead(begun: Buffer, bytes: Buffer, start: number): number {
    // No head is longer, so no more bytes need to be searched.
    const lengthMax = HEAD_BYTES_MAX + EMPTY_LINE.length
    const joined = Buffer.concat([begun, bytes.subarray(start, start + lengthMax)])
    const end = joined.indexOf(EMPTY_LINE, Math.max(0, begun.length - EMPTY_LINE.length))
    if (end === -1) {
      this.#keep(joined)
      return bytes.length
    }
    if (end > HEAD_BYTES_MAX) throw headTooLarge()
    this.#begun = undefined
    this.#useHead(joined.toString('latin1', 0, end))
    return start + end + EMPTY_LINE.length - begun.length
  }

  #keep(begun: Buffer): void {
    // All but the last byte of the empty line may have arrived.
    if (begun.length >= HEAD_BYTES_MAX + EMPTY_LINE.length) throw headTooLarge()
    this.#begun = begun
  }

  #useHead(text: string): void {
    const head = readHead(text)
    const { status, bodyBytes, isChunked } = head
    if (status === 101) {
      checkSwitch(head, this.#expected.upgrade)
      this.#state = 'switched'
    } else if (status < 200) {
      if (!head.isPersistent) throw invalidResponse('an interim response closes the connection')
      this.#interimResponses += 1
      if (this.#interimResponses > INTERIM_RESPONSES_MAX) {
        throw invalidResponse('too many interim responses')
      }
    } else if (this.#expected.isHead || status === 204 || status === 304) this.#state = 'done'
    else if (isChunked) {
      this.#state = 'chunked'
      this.#chunked = new ChunkedReader((chunk) => this.#events.onData(chunk), responseErrors)
    } else if (bodyBytes === undefined) this.#state = 'until-close'
    else {
      this.#state = bodyBytes === 0 ? 'done' : 'counted'
      this.#leftBytes = bodyBytes
    }
    this.#events.onHead(head)
  }

  #readCounted(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#leftBytes)
    this.#leftBytes -= end - at
    if (this.#leftBytes === 0) this.#state = 'done'
    this.#events.onData(bytes.subarray(at, end))
    return end
  }

  #readChunked(bytes: Buffer, at: number): number {
    const chunked = this.#chunked as ChunkedReader
    const end = chunked.read(bytes, at)
    if (chunked.isDone) this.#state = 'done'
    return end
  }
}

/** Client, gateway and server must agree on the new protocol, and on where it begins. */
export function checkSwitch(
  { headers, bodyBytes, isChunked }: ResponseHead,
  asked: string | undefined,
): void {
  if (asked === undefined)
    throw invalidResponse('the response switches protocols without a request to')
  if (fieldOf(headers, 'upgrade')?.toLowerCase() !== asked.toLowerCase()) {
    throw invalidResponse('the response switches to another protocol than was asked for')
  }
  if (bodyBytes !== undefined || isChunked) {
    throw invalidResponse('a response that switches protocols has no body')
  }
}

function headTooLarge(): Error {
  const message = `the head of the response has more than ${HEAD_BYTES_MAX} bytes`
  return upstreamError('UPSTREAM_HEAD_TOO_LARGE', message)
}
