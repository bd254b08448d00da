/**
 * HTTP/1 byte streams for comparing servers: valid and damaged requests, known attacks, and both
 * mutated. The same seed makes the same streams. Each ends with a request that shows whether a
 * server still knows where requests begin.
 */

import { type Random, seededRandom } from '../e2e/rls/random.ts'
import { requestShapes } from '../security/request-shapes.ts'
import { smugglingShapes } from '../security/smuggling-shapes.ts'
import { protocolCases } from './protocol-cases.ts'

export const LAST = 'GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'

export interface ByteStream {
  /** One character per byte, one write per entry. */
  readonly pieces: readonly string[]
}

/** Longer streams are slow to compare and find no further differences. */
const STREAM_CHARS_MAX = 20_000

export function* byteStreams(seed: number): Generator<ByteStream> {
  const random = seededRandom(seed)
  for (;;) {
    for (const { pieces } of requestShapes(random.below(2 ** 31), 40)) {
      if (pieces.join('').length < STREAM_CHARS_MAX) yield { pieces: [...pieces, LAST] }
    }
    const attacks = [...smugglingShapes, ...protocolCases.map(({ name, bytes }) => [name, bytes])]
    for (let count = 0; count < 40; count += 1) {
      const [, first = ''] = random.pick(attacks)
      const [, second = ''] = random.pick(attacks)
      let text = numbered(first) + (random.below(3) === 0 ? numbered(second) : '')
      for (let left = random.below(4); left > 0; left -= 1) text = mutated(random, text)
      if (text.length < STREAM_CHARS_MAX) yield { pieces: cut(random, text + LAST) }
    }
  }
}

const numbered = (text: string) => text.replaceAll('-000', '-1')

/** Bytes with a meaning in HTTP/1, and bytes that are never valid. */
const tokens = [
  ...['\r\n', '\n', '\r', '\0', ' ', '\t', ':', ',', ';', '"', '\\', '=', '/', '?', '#', '%', '@'],
  ...['0', '1', '9', 'a', 'f', '0x', '+', '-', '_', '.', '\x0b', '\x0c', '\x7f', '\x80', '\xff'],
  ...['\r\n\r\n', '\r\n ', '\r\n\t', '\n\n', '0\r\n\r\n', '5\r\nhello\r\n', '\r\n0\r\n\r\n'],
  ...['Content-Length: 5\r\n', 'Content-Length: 0\r\n', 'Transfer-Encoding: chunked\r\n'],
  ...[
    'Host: b.example\r\n',
    'Expect: 100-continue\r\n',
    'Connection: close\r\n',
    'Upgrade: h2c\r\n',
  ],
  ...[
    'TE: trailers\r\n',
    'Trailer: x\r\n',
    'chunked',
    'identity',
    ' HTTP/1.1',
    ' HTTP/1.0',
    'GET ',
  ],
  ...['POST ', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'http://b.example', '//', '/../', '%2f', '%00'],
]

function mutated(random: Random, text: string): string {
  const at = random.below(text.length + 1)
  const [before, after] = [text.slice(0, at), text.slice(at)]
  switch (random.below(8)) {
    case 0:
    case 1:
      return before + random.pick(tokens) + after
    case 2:
      return before + random.pick(tokens) + after.slice(1 + random.below(3))
    case 3:
      return before + after.slice(1 + random.below(8))
    case 4:
      return before + String.fromCharCode(random.below(256)) + after.slice(1)
    case 5: {
      const length = 1 + random.below(40)
      return before + after.slice(0, length) + after
    }
    case 6: {
      const lines = text.split('\r\n')
      const line = random.pick(lines)
      return lines.toSpliced(random.below(lines.length + 1), 0, line).join('\r\n')
    }
    default: {
      const lines = text.split('\r\n')
      return lines.toSpliced(random.below(lines.length), 1).join('\r\n')
    }
  }
}

function cut(random: Random, text: string): string[] {
  if (random.below(3) > 0) return [text]
  const at = random.below(text.length)
  return [text.slice(0, at), text.slice(at)].filter((piece) => piece !== '')
}
