/** Upstream responses are read alike in chunks of any size. */

import { describe, expect, test } from 'vitest'
import type { Expected } from '../../../packages/server/src/gateway/upstreams/http1/response-reader.ts'
import {
  type AnswerOutcome,
  outcomeOf,
  plainRequest,
  singleBytes,
  splits,
  wholePiece,
} from './answer-outcome.ts'

const head = { isHead: true, upgrade: undefined }
const chunkedHead = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const websocket = { isHead: false, upgrade: 'WebSocket' }

interface Sample {
  readonly name: string
  readonly text: string
  readonly expected?: Expected
  readonly outcome: Partial<AnswerOutcome> & { readonly statuses: readonly number[] }
}

const samples: readonly Sample[] = [
  {
    name: 'with a body of declared length',
    text: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    outcome: { statuses: [200], body: 'hello', state: 'done', rest: '' },
  },
  {
    name: 'with a length that has zeros in front',
    text: 'HTTP/1.1 200 OK\r\nContent-Length: 0005\r\n\r\nhello',
    outcome: { statuses: [200], body: 'hello', state: 'done' },
  },
  {
    name: 'with an empty body',
    text: 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
    outcome: { statuses: [200], body: '', state: 'done' },
  },
  {
    name: 'without a text behind the status',
    text: 'HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n',
    outcome: { statuses: [404], heads: [headOf(404, '', ['content-length', '0'])] },
  },
  {
    name: 'with letters beyond ASCII in its status text and values',
    text: 'HTTP/1.1 200 tr\xe8s bien\r\nX-A: \xfcber\r\nContent-Length: 0\r\n\r\n',
    outcome: {
      statuses: [200],
      heads: [headOf(200, 'tr\xe8s bien', ['x-a', '\xfcber', 'content-length', '0'])],
    },
  },
  {
    name: 'with spaces around a value, inside it, and with no value',
    text: 'HTTP/1.1 200 OK\r\nA:\t b  c \t\r\nD:\r\nE:f:g\r\nContent-Length:0\r\n\r\n',
    outcome: {
      statuses: [200],
      heads: [headOf(200, 'OK', ['a', 'b  c', 'd', '', 'e', 'f:g', 'content-length', '0'])],
    },
  },
  {
    name: 'with a field that is there twice',
    text: 'HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSET-COOKIE: b\r\nContent-Length: 0\r\n\r\n',
    outcome: {
      statuses: [200],
      heads: [headOf(200, 'OK', ['set-cookie', 'a', 'set-cookie', 'b', 'content-length', '0'])],
    },
  },
  {
    name: 'in chunks',
    text: `${chunkedHead}5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n`,
    outcome: { statuses: [200], body: 'hello0123456789', state: 'done', trailers: undefined },
  },
  {
    name: 'in chunks that look like the end',
    text: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n',
    outcome: { statuses: [200], body: '\r\n0\r\n\r\n', state: 'done' },
  },
  {
    name: 'in chunks with extensions',
    text: `${chunkedHead}2;a=b;c="d e"\r\nhi\r\n0;x\r\n\r\n`,
    outcome: { statuses: [200], body: 'hi', state: 'done' },
  },
  {
    name: 'in chunks with trailers',
    text: `${chunkedHead}2\r\nhi\r\n0\r\nX-Sum: 1\r\nY:2\r\n\r\nmore`,
    outcome: {
      statuses: [200],
      body: 'hi',
      trailers: ['x-sum', '1', 'y', '2'],
      state: 'done',
      rest: 'more',
    },
  },
  {
    name: 'that lasts until the connection ends',
    text: 'HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nall of it\r\n\r\n',
    outcome: { statuses: [200], body: 'all of it\r\n\r\n', state: 'ended' },
  },
  {
    name: 'of HTTP/1.0',
    text: 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhimore',
    outcome: { statuses: [200], body: 'hi', state: 'done', rest: 'more' },
  },
  {
    name: 'to HEAD, which declares a length and has no body',
    text: 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
    expected: head,
    outcome: { statuses: [200], body: '', state: 'done', rest: 'hello' },
  },
  {
    name: 'to HEAD, in chunks that never come',
    text: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
    expected: head,
    outcome: { statuses: [200], body: '', state: 'done' },
  },
  {
    name: 'of 204 with a body that is none',
    text: 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello',
    outcome: { statuses: [204], body: '', state: 'done', rest: 'hello' },
  },
  {
    name: 'of 304 with the length of the body that was not sent',
    text: 'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
    outcome: { statuses: [304], body: '', state: 'done' },
  },
  {
    name: 'behind some that are not final',
    text: [
      'HTTP/1.1 100 Continue\r\n\r\n',
      'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx',
    ].join(''),
    outcome: { statuses: [100, 103, 200], body: 'x', state: 'done' },
  },
  {
    name: 'that switches protocols',
    text: 'HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello',
    expected: websocket,
    outcome: { statuses: [101], body: '', state: 'switched', rest: '\x81\x05hello' },
  },
  {
    name: 'that does not switch protocols, though it was asked to',
    text: 'HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno',
    expected: websocket,
    outcome: { statuses: [426], body: 'no', state: 'done' },
  },
  {
    name: 'with an unregistered status',
    text: 'HTTP/1.1 999 Whatever\r\nContent-Length: 0\r\n\r\n',
    outcome: { statuses: [999], state: 'done' },
  },
]

function headOf(status: number, statusText: string, headers: string[]) {
  return { status, statusText, headers }
}

describe('an answer', () => {
  test.each(samples)('$name', ({ text, expected = plainRequest, outcome }) => {
    const { statuses, ...parts } = outcome
    const whole = outcomeOf(wholePiece(text), expected)
    expect(whole).toMatchObject(parts)
    expect(whole.heads.map(({ status }) => status)).toEqual(statuses)
    expect(outcomeOf(singleBytes(text), expected)).toEqual(whole)
    for (const pieces of splits(text)) expect(outcomeOf(pieces, expected)).toEqual(whole)
  })

  const counted = samples.filter(({ outcome }) => outcome.state !== 'ended')
  test.each(counted)('$name: that breaks off is not taken for whole', (sample) => {
    const { text, expected = plainRequest } = sample
    const { rest } = outcomeOf(wholePiece(text), expected)
    for (let length = 1; length < text.length - rest.length; length += 1) {
      expect(outcomeOf(wholePiece(text.slice(0, length)), expected).state).toBe('open')
    }
  })
})

describe('what is too large', () => {
  const HEAD_BYTES_MAX = 64 * 1_024
  const TRAILER_BYTES_MAX = 16 * 1_024
  const chunked = `${chunkedHead}0\r\n`

  /** The outcomes of the whole text, and of splits near the limit. */
  function states(text: string): Set<string> {
    const found = new Set([outcomeOf(wholePiece(text)).state])
    for (let back = 1; back < 12; back += 1) {
      const cut = text.length - back
      const pieces = [text.slice(0, cut), text.slice(cut)].map((part) => Buffer.from(part))
      found.add(outcomeOf(pieces).state)
    }
    return found
  }

  test.each([
    ['a head as large as may be', headOfLength(HEAD_BYTES_MAX), 'done'],
    ['a head that is larger by a byte', headOfLength(HEAD_BYTES_MAX + 1), 'refused'],
    ['trailers as large as may be', chunked + fieldOfLength(TRAILER_BYTES_MAX), 'done'],
    ['trailers larger by a byte', chunked + fieldOfLength(TRAILER_BYTES_MAX + 1), 'refused'],
    ['trailers of several times that', chunked + fieldOfLength(3 * TRAILER_BYTES_MAX), 'refused'],
  ])('%s: the same in whichever pieces', (_name, text, state) => {
    expect(states(text)).toEqual(new Set([state]))
  })

  test.each([
    ['a head', 'HTTP/1.1 200 OK\r\nx: '],
    ['trailers', `${chunked}x: `],
    ['the line of a chunk', `${chunkedHead}1;`],
    ['what follows a chunk', `${chunkedHead}1\r\na`],
  ])('%s without an end is refused while it comes', (_name, start) => {
    const pieces = [start, ...Array.from({ length: 80 }, () => 'x'.repeat(1_000))]
    expect(outcomeOf(pieces.map((piece) => Buffer.from(piece))).state).toBe('refused')
  })

  function headOfLength(bytes: number): string {
    const start = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx: '
    return `${start.padEnd(bytes, 'x')}\r\n\r\n`
  }

  function fieldOfLength(bytes: number): string {
    return `${'x: '.padEnd(bytes, 'x')}\r\n\r\n`
  }
})
