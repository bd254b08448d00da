/** What an answer is to the reader of answers, in whichever pieces it arrives. */

import type { HeaderList } from '../../packages/server/src/gateway/message.ts'
import {
  AnswerReader,
  type Expected,
} from '../../packages/server/src/gateway/upstreams/http1/answer-reader.ts'

export interface AnswerOutcome {
  /** Of all answers, also those that are not final. */
  readonly heads: readonly SeenHead[]
  readonly body: string
  readonly trailers: HeaderList | undefined
  /** `open` where more must come, `ended` where the end of the connection has ended it. */
  readonly state: 'done' | 'switched' | 'open' | 'ended' | 'refused'
  /** What came behind the answer. */
  readonly rest: string
  readonly problem: string | undefined
}

export interface SeenHead {
  readonly status: number
  readonly statusText: string
  readonly headers: HeaderList
}

export const plainRequest: Expected = { isHead: false, upgrade: undefined }

/** Reads the pieces, and then the end of the connection. */
export function outcomeOf(pieces: readonly Buffer[], expected = plainRequest): AnswerOutcome {
  const heads: SeenHead[] = []
  let body = ''
  let rest = ''
  const reader = new AnswerReader({
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

/** Two pieces, for every place where a text can be cut. */
export function* splits(text: string): Generator<Buffer[]> {
  for (let at = 1; at < text.length; at += 1) {
    yield [Buffer.from(text.slice(0, at), 'latin1'), Buffer.from(text.slice(at), 'latin1')]
  }
}

/** The buffer is overwritten behind it, as it is where connections share one. */
function readOver(reader: AnswerReader, piece: Buffer): string {
  const shared = Buffer.from(piece)
  const end = reader.isDone || reader.hasSwitched ? 0 : reader.read(shared)
  shared.fill('#')
  return piece.toString('latin1', end)
}

function stateOf(reader: AnswerReader): AnswerOutcome['state'] {
  if (reader.hasSwitched) return 'switched'
  if (reader.isDone) return 'done'
  return reader.readEnd() ? 'ended' : 'open'
}
