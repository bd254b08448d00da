/** Ambiguous responses are refused. */

import { describe, expect, test } from 'vitest'
import {
  outcomeOf,
  plainRequest,
  singleBytes,
  splits,
  wholePiece,
} from '../e2e/gateway/answer-outcome.ts'

const chunked = 'Transfer-Encoding: chunked'

const statusLines: readonly (readonly [name: string, line: string])[] = [
  ['HTTP/0.9', 'hello'],
  ['another version', 'HTTP/1.2 200 OK'],
  ['HTTP/2', 'HTTP/2 200 OK'],
  ['HTTP/2.0', 'HTTP/2.0 200 OK'],
  ['a version of three numbers', 'HTTP/1.1.1 200 OK'],
  ['a version of two digits', 'HTTP/1.01 200 OK'],
  ['another protocol', 'ICY 200 OK'],
  ['letters in lower case', 'http/1.1 200 OK'],
  ['a space in front', ' HTTP/1.1 200 OK'],
  ['an empty line in front', '\r\nHTTP/1.1 200 OK'],
  ['two spaces', 'HTTP/1.1  200 OK'],
  ['a tab', 'HTTP/1.1\t200 OK'],
  ['a status of two digits', 'HTTP/1.1 20 OK'],
  ['a status of four digits', 'HTTP/1.1 2000 OK'],
  ['a status of zeros', 'HTTP/1.1 000 OK'],
  ['a status below 100', 'HTTP/1.1 099 OK'],
  ['a status with a sign', 'HTTP/1.1 +20 OK'],
  ['a status in hexadecimal', 'HTTP/1.1 2a0 OK'],
  ['no status', 'HTTP/1.1 OK'],
  ['a text that is not apart', 'HTTP/1.1 200OK'],
  ['a NUL in the text', 'HTTP/1.1 200 O\0K'],
  ['a bare CR in the text', 'HTTP/1.1 200 OK\rX: y'],
  ['a bare LF in the text', 'HTTP/1.1 200 OK\nX: y'],
  ['a request', 'GET / HTTP/1.1'],
]

const fields: readonly (readonly [name: string, ...lines: string[]])[] = [
  ['both ways to tell a length', 'Content-Length: 5', chunked],
  ['both ways to tell a length, turned round', chunked, 'Content-Length: 5'],
  ['two lengths', 'Content-Length: 5', 'Content-Length: 6'],
  ['one length twice', 'Content-Length: 5', 'Content-Length: 5'],
  ['a list of lengths', 'Content-Length: 5, 5'],
  ['a length with a plus', 'Content-Length: +5'],
  ['a length below zero', 'Content-Length: -5'],
  ['a length in hexadecimal', 'Content-Length: 0x5'],
  ['a length with an exponent', 'Content-Length: 5e0'],
  ['a length with a point', 'Content-Length: 5.0'],
  ['a length with an underscore', 'Content-Length: 1_0'],
  ['a length with a space inside', 'Content-Length: 1 0'],
  ['an empty length', 'Content-Length:'],
  ['a length in other digits', 'Content-Length: \xb2'],
  ['a length beyond all numbers', 'Content-Length: 18446744073709551621'],
  ['another transfer coding', 'Transfer-Encoding: gzip'],
  ['a transfer coding behind another', 'Transfer-Encoding: gzip, chunked'],
  ['chunked twice in a list', 'Transfer-Encoding: chunked, chunked'],
  ['chunked twice', chunked, chunked],
  ['chunked and identity', chunked, 'Transfer-Encoding: identity'],
  ['an empty transfer coding', 'Transfer-Encoding:'],
  ['a transfer coding that is nearly chunked', 'Transfer-Encoding: xchunked'],
  ['a transfer coding in quotes', 'Transfer-Encoding: "chunked"'],
  ['a transfer coding with a parameter', 'Transfer-Encoding: chunked;q=1'],
  ['a transfer coding with a vertical tab', 'Transfer-Encoding: \x0bchunked'],
  ['a space before the colon', 'Content-Length : 5'],
  ['a tab before the colon', 'X-A\t: 5'],
  ['a line that goes on', 'X-A: b', ' c'],
  ['a line that goes on with a field', 'X-A: b', ' Content-Length: 5'],
  ['a line that goes on by a tab', 'X-A: b', '\tc: d'],
  ['a first line that goes on', ' X-A: b'],
  ['a line without a colon', 'X-A'],
  ['no name', ': b'],
  ['a name in parentheses', '(X-A): b'],
  ['a name with letters beyond ASCII', 'X-\xc4: b'],
  ['a NUL in a name', 'X\0A: b'],
  ['a NUL in a value', 'X-A: b\0c'],
  ['a bare CR in a value', 'X-A: b\rContent-Length: 5'],
  ['a bare LF in a value', 'X-A: b\nContent-Length: 5'],
  ['a bare CR in a name', 'X\r-A: b'],
  ['DEL in a value', 'X-A: \x7f'],
  ['ESC in a value', 'X-A: \x1b[2J'],
]

const bodies: readonly (readonly [name: string, body: string])[] = [
  ['a sign', '+5\r\nhello\r\n0\r\n\r\n'],
  ['a size below zero', '-5\r\nhello\r\n0\r\n\r\n'],
  ['a prefix of hexadecimal', '0x5\r\nhello\r\n0\r\n\r\n'],
  ['an underscore', '1_0\r\nhello\r\n0\r\n\r\n'],
  ['no size', '\r\nhello\r\n0\r\n\r\n'],
  ['no size but an extension', ';a=b\r\nhello\r\n0\r\n\r\n'],
  ['another letter', '5g\r\nhello\r\n0\r\n\r\n'],
  ['a size beyond all numbers', `${'f'.repeat(16)}\r\nhello\r\n0\r\n\r\n`],
  ['a size that would begin again from zero', '10000000000000005\r\nhello\r\n0\r\n\r\n'],
  ['a space in front', ' 5\r\nhello\r\n0\r\n\r\n'],
  ['a space behind', '5 \r\nhello\r\n0\r\n\r\n'],
  ['a tab behind', '5\t\r\nhello\r\n0\r\n\r\n'],
  ['two sizes', '5 5\r\nhello\r\n0\r\n\r\n'],
  ['a bare LF behind the size', '5\nhello\r\n0\r\n\r\n'],
  ['a bare CR behind the size', '5\rhello\r\n0\r\n\r\n'],
  ['two CR behind the size', '5\r\r\nhello\r\n0\r\n\r\n'],
  ['a bare CR in an extension', '5;a\rb\r\nhello\r\n0\r\n\r\n'],
  ['a bare LF in an extension', '5;a\nb\r\nhello\r\n0\r\n\r\n'],
  ['a NUL in an extension', '5;a\0\r\nhello\r\n0\r\n\r\n'],
  ['an extension without a name', '5;\r\nhello\r\n0\r\n\r\n'],
  ['an extension of two words', '5;a b\r\nhello\r\n0\r\n\r\n'],
  ['a quote that does not end', '5;a="b\r\nhello\r\n0\r\n\r\n'],
  ['a chunk that is longer', '5\r\nhello!\r\n0\r\n\r\n'],
  ['a chunk that is shorter', '5\r\nhell\r\n0\r\n\r\n'],
  ['a bare LF behind a chunk', '5\r\nhello\n0\r\n\r\n'],
  ['nothing behind a chunk', '5\r\nhello0\r\n\r\n'],
  ['a bare LF behind the last size', '0\n\r\n'],
  ['trailers with a bare LF', '0\r\nX-A: b\nX-B: c\r\n\r\n'],
  ['trailers that go on', '0\r\nX-A: b\r\n c\r\n\r\n'],
  ['trailers with a space before the colon', '0\r\nX-A : b\r\n\r\n'],
  ['trailers with a NUL', '0\r\nX-A: \0\r\n\r\n'],
  ['trailers that tell a length', '0\r\nContent-Length: 5\r\n\r\nhello'],
  ['trailers that tell a coding', '0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['trailers without a colon', '0\r\nX-A\r\n\r\n'],
]

const switches: readonly (readonly [name: string, ...lines: string[]])[] = [
  ['without saying to which protocol', 'Connection: upgrade'],
  ['to another protocol', 'Connection: upgrade', 'Upgrade: h2c'],
  ['with a length', 'Connection: upgrade', 'Upgrade: websocket', 'Content-Length: 5'],
  ['in chunks', 'Connection: upgrade', 'Upgrade: websocket', chunked],
]

function expectRefused(text: string, expected = plainRequest): void {
  const ways = [wholePiece(text), singleBytes(text), ...splits(text)]
  for (const pieces of ways) {
    const outcome = outcomeOf(pieces, expected)
    expect(outcome).toMatchObject({ state: 'refused', trailers: undefined })
  }
}

describe('an answer is refused', () => {
  test.each(statusLines)('that begins with %s', (_name, line) => {
    expectRefused(`${line}\r\nContent-Length: 0\r\n\r\n`)
  })

  test.each(fields)('with %s', (_name, ...lines) => {
    expectRefused(`HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\n\r\nhello`)
  })

  test.each(bodies)('in chunks with %s', (_name, body) => {
    expectRefused(`HTTP/1.1 200 OK\r\n${chunked}\r\n\r\n${body}`)
  })

  test.each(switches)('that switches protocols %s', (_name, ...lines) => {
    const text = `HTTP/1.1 101 Switching Protocols\r\n${lines.join('\r\n')}\r\n\r\nhello`
    expectRefused(text, { isHead: false, upgrade: 'websocket' })
  })

  test('that switches protocols unasked', () => {
    expectRefused('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n')
  })

  test('of HTTP/1.0 in chunks', () => {
    expectRefused(`HTTP/1.0 200 OK\r\n${chunked}\r\n\r\n0\r\n\r\n`)
  })

  test.each(['HTTP/1.1 100 Continue\r\nConnection: close', 'HTTP/1.0 100 Continue'])(
    'behind one that is not final and ends the connection: %j',
    (interim) => {
      expectRefused(`${interim}\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)
    },
  )

  test('behind too many that are not final', () => {
    const interim = 'HTTP/1.1 103 Early Hints\r\n\r\n'
    const final = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
    expect(outcomeOf(wholePiece(interim.repeat(16) + final)).state).toBe('done')
    expectRefused(interim.repeat(17) + final)
  })

  test('with too many fields', () => {
    const head = (count: number) => `HTTP/1.1 204 OK\r\n${'a: b\r\n'.repeat(count)}\r\n`
    expect(outcomeOf(wholePiece(head(1_000))).state).toBe('done')
    expect(outcomeOf(wholePiece(head(1_001))).state).toBe('refused')
    expect(outcomeOf(singleBytes(head(1_001))).state).toBe('refused')
  })
})

describe('an answer with nothing but bare LF', () => {
  test('is not complete, however much of it there is', () => {
    const text = 'HTTP/1.1 200 OK\nContent-Length: 5\n\nhello'
    expect(outcomeOf(wholePiece(text))).toMatchObject({ heads: [], body: '', state: 'open' })
  })
})
