/**
 * Answers of a server, one after the other, from the pieces in which they arrive. Whatever is not
 * as it must be throws. https://www.rfc-editor.org/rfc/rfc9112#section-6.3
 */

import { ChunkedReader } from '../../http1/chunked-reader.ts'
import { fieldOf, type HeaderList } from '../../message.ts'
import { type AnswerHead, readHead } from './read-head.ts'
import { answerErrors, invalidAnswer, upstreamError } from './upstream-error.ts'

export interface AnswerSink {
  /** Also of answers that are not final. */
  onHead(head: AnswerHead): void
  /** The bytes are only there during the call. */
  onData(chunk: Buffer): void
}

export interface Expected {
  /** HEAD has answers without a body, whatever they say of its length. */
  readonly isHead: boolean
  /** The protocol that was asked for, where one was. */
  readonly upgrade: string | undefined
}

/** Answers of honest servers have far less; more would only fill memory. */
const HEAD_BYTES_MAX = 64 * 1_024

/** Nobody has more to say before an answer. */
const INTERIM_ANSWERS_MAX = 16

const EMPTY_LINE = Buffer.from('\r\n\r\n')

type State = 'head' | 'counted' | 'chunked' | 'until-close' | 'done' | 'switched'

export class AnswerReader {
  readonly #sink: AnswerSink
  #state: State = 'done'
  #expected: Expected = { isHead: false, upgrade: undefined }
  /** The beginning of a head. */
  #begun: Buffer | undefined
  #interimAnswers = 0
  #left = 0
  #chunked: ChunkedReader | undefined

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  /** All of the answer is here. */
  get isDone(): boolean {
    return this.#state === 'done'
  }

  /** What follows is another protocol. */
  get hasSwitched(): boolean {
    return this.#state === 'switched'
  }

  get trailers(): HeaderList | undefined {
    return this.#chunked?.trailers
  }

  /** From here on, an answer is read. */
  expect(expected: Expected): void {
    this.#state = 'head'
    this.#expected = expected
    this.#interimAnswers = 0
    this.#chunked = undefined
  }

  /** Returns where the answer ended, or the length of the piece. */
  read(piece: Buffer): number {
    let at = 0
    while (at < piece.length) {
      if (this.#state === 'head') at = this.#readHead(piece, at)
      else if (this.#state === 'counted') at = this.#readCounted(piece, at)
      else if (this.#state === 'chunked') at = this.#readChunked(piece, at)
      else if (this.#state === 'until-close') {
        this.#sink.onData(at === 0 ? piece : piece.subarray(at))
        at = piece.length
      } else break
    }
    return at
  }

  /** The server has ended the connection: whether that is how the answer ends. */
  readEnd(): boolean {
    if (this.#state !== 'until-close') return false
    this.#state = 'done'
    return true
  }

  #readHead(piece: Buffer, start: number): number {
    const begun = this.#begun
    if (begun !== undefined) return this.#readRestOfHead(begun, piece, start)
    const end = piece.indexOf(EMPTY_LINE, start)
    if (end === -1) {
      this.#keep(Buffer.from(piece.subarray(start)))
      return piece.length
    }
    if (end - start > HEAD_BYTES_MAX) throw headTooLarge()
    this.#useHead(piece.toString('latin1', start, end))
    return end + EMPTY_LINE.length
  }

  #readRestOfHead(begun: Buffer, piece: Buffer, start: number): number {
    // No head is longer, so that no more has to be looked at.
    const lengthMax = HEAD_BYTES_MAX + EMPTY_LINE.length
    const joined = Buffer.concat([begun, piece.subarray(start, start + lengthMax)])
    const end = joined.indexOf(EMPTY_LINE, Math.max(0, begun.length - EMPTY_LINE.length))
    if (end === -1) {
      this.#keep(joined)
      return piece.length
    }
    if (end > HEAD_BYTES_MAX) throw headTooLarge()
    this.#begun = undefined
    this.#useHead(joined.toString('latin1', 0, end))
    return start + end + EMPTY_LINE.length - begun.length
  }

  #keep(begun: Buffer): void {
    // Of the empty line, all but its last byte may be here.
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
      if (!head.isPersistent) throw invalidAnswer('an answer that is not final ends the connection')
      this.#interimAnswers += 1
      if (this.#interimAnswers > INTERIM_ANSWERS_MAX) {
        throw invalidAnswer('there are too many answers that are not final')
      }
    } else if (this.#expected.isHead || status === 204 || status === 304) this.#state = 'done'
    else if (isChunked) {
      this.#state = 'chunked'
      this.#chunked = new ChunkedReader((chunk) => this.#sink.onData(chunk), answerErrors)
    } else if (bodyBytes === undefined) this.#state = 'until-close'
    else {
      this.#state = bodyBytes === 0 ? 'done' : 'counted'
      this.#left = bodyBytes
    }
    this.#sink.onHead(head)
  }

  #readCounted(piece: Buffer, at: number): number {
    const end = Math.min(piece.length, at + this.#left)
    this.#left -= end - at
    if (this.#left === 0) this.#state = 'done'
    this.#sink.onData(piece.subarray(at, end))
    return end
  }

  #readChunked(piece: Buffer, at: number): number {
    const chunked = this.#chunked as ChunkedReader
    const end = chunked.read(piece, at)
    if (chunked.isDone) this.#state = 'done'
    return end
  }
}

/** What follows is of another protocol, so all must agree on where it begins and what it is. */
function checkSwitch({ headers, bodyBytes, isChunked }: AnswerHead, asked: string | undefined) {
  if (asked === undefined) throw invalidAnswer('nobody asked to switch protocols')
  if (fieldOf(headers, 'upgrade')?.toLowerCase() !== asked.toLowerCase()) {
    throw invalidAnswer('the answer switches to another protocol than was asked for')
  }
  if (bodyBytes !== undefined || isChunked) {
    throw invalidAnswer('an answer that switches protocols has no body')
  }
}

function headTooLarge(): Error {
  const message = `the head of the answer has more than ${HEAD_BYTES_MAX} bytes`
  return upstreamError('UPSTREAM_HEAD_TOO_LARGE', message)
}
