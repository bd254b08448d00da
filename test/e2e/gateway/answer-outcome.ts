/** The result of the response reader for chunks of any size. */

import type { HeaderList } from '../../../packages/server/src/gateway/header-list.ts'
import {
  type Expected,
  ResponseReader,
} from '../../../packages/server/src/gateway/upstreams/http1/response-reader.ts'

export interface AnswerOutcome {
  /** The heads of all responses, also of interim ones. */
  readonly heads: readonly SeenHead[]
  readonly body: string
  readonly trailers: HeaderList | undefined
  /** `open` if bytes are missing, `ended` if the end of the connection ended the response. */
  readonly state: 'done' | 'switched' | 'open' | 'ended' | 'refused'
  /** The bytes after the response. */
  readonly rest: string
  readonly problem: string | undefined
}

export interface SeenHead {
  readonly status: number
  readonly statusText: string
  readonly headers: HeaderList
}

export const plainRequest: Expected = { isHead: false, upgrade: undefined }

/** Reads the chunks, and then the end of the connection. */
export function outcomeOf(pieces: readonly Buffer[], expected = plainRequest): AnswerOutcome {
  const heads: SeenHead[] = []
  let body = ''
  let rest = ''
  const reader = new ResponseReader({
    onHead({ status, statusText, headers }) {
      heads.push({ status, statusText, headers })
    },
    onData(chunk) {
      body += chunk.toString('latin1')
    },
  })
  reader.expect(expected)
  try {
    for (const piece of pieces) rest += readOver(reader, piece)
  } catch (error) {
    const { message } = error as Error
    return { heads, body, trailers: undefined, state: 'refused', rest: '', problem: message }
  }
  const { trailers } = reader
  return { heads, body, trailers, state: stateOf(reader), rest, problem: undefined }
}

export function wholePiece(text: string): Buffer[] {
  return [Buffer.from(text, 'latin1')]
}

export function singleBytes(text: string): Buffer[] {
  return [...text].map((character) => Buffer.from(character, 'latin1'))
}

/** Two chunks, for every position at which the text can be split. */
export function* splits(text: string): Generator<Buffer[]> {
  for (let at = 1; at < text.length; at += 1) {
    yield [Buffer.from(text.slice(0, at), 'latin1'), Buffer.from(text.slice(at), 'latin1')]
  }
}

/** The buffer is overwritten after the call, as it is when connections share one. */
function readOver(reader: ResponseReader, piece: Buffer): string {
  const shared = Buffer.from(piece)
  const end = reader.isDone || reader.hasSwitched ? 0 : reader.read(shared)
  shared.fill('#')
  return piece.toString('latin1', end)
}

function stateOf(reader: ResponseReader): AnswerOutcome['state'] {
  if (reader.hasSwitched) return 'switched'
  if (reader.isDone) return 'done'
  return reader.readEnd() ? 'ended' : 'open'
}
