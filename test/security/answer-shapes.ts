/** Valid and damaged responses of servers; deterministic for a seed. */

import { type Random, seededRandom } from '../e2e/rls/random.ts'

export interface AnswerShape {
  readonly method: 'GET' | 'HEAD'
  /** The bytes on the wire, one character per byte. */
  readonly text: string
  readonly isDamaged: boolean
}

export function* answerShapes(seed: number, count: number): Generator<AnswerShape> {
  const random = seededRandom(seed)
  for (let made = 0; made < count; made += 1) {
    const method = random.below(12) === 0 ? 'HEAD' : 'GET'
    const whole = answerText(random, method)
    const isDamaged = random.below(4) > 0
    yield { method, text: isDamaged ? damaged(random, whole) : whole, isDamaged }
  }
}

const statusLines = [
  ...['HTTP/1.1 200 OK', 'HTTP/1.1 200 ', 'HTTP/1.1 404 Not Found', 'HTTP/1.1 500 \xe9chec'],
  ...['HTTP/1.1 204 No Content', 'HTTP/1.1 304 Not Modified', 'HTTP/1.1 299 x:y'],
  ...['HTTP/1.0 200 OK', 'HTTP/1.1 206 Partial Content'],
]

const fields = [
  ...['Server: test', 'X-A:b', 'x-b: \t c d \t', 'Set-Cookie: a=b; Path=/', 'X-Empty:', 'X: \xff'],
  ...['Connection: close', 'Connection: keep-alive', 'Keep-Alive: timeout=5', 'Trailer: x-sum'],
  ...['Date: Mon, 01 Jan 2024 00:00:00 GMT', "!#$%&'*+-.^_`|~: odd", 'Content-Type: text/plain'],
]

const interim = ['HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n']

const pieces = ['hello', 'a', '0\r\n\r\n', '\r\n', '\xff\x00\x80', 'HTTP/1.1 200 OK\r\n\r\n']

const extensions = ['', '', '', ';a', ';a=b', ';a="b c"', ';a=b;c=d']

const trailers = ['', '', 'X-Sum: 1\r\n', 'X-Sum: 1\r\nY: \t2\r\n']

function answerText(random: Random, method: 'GET' | 'HEAD'): string {
  const statusLine = random.pick(statusLines)
  const hasBody = method !== 'HEAD' && !/ (204|304) /.test(statusLine)
  const lines = Array.from({ length: random.below(4) }, () => random.pick(fields))
  const parts = Array.from({ length: random.below(4) }, () => random.pick(pieces))
  const framing = random.below(3)
  let body = parts.join('')
  if (framing === 0) lines.push(`Content-Length: ${body.length}`)
  else if (framing === 1 && statusLine.startsWith('HTTP/1.1')) {
    lines.push('Transfer-Encoding: chunked')
    body = chunkedText(random, parts)
  }
  const head = [statusLine, ...shuffled(random, lines)].join('\r\n')
  const before = random.below(8) === 0 ? random.pick(interim) : ''
  return `${before}${head}\r\n\r\n${hasBody ? body : ''}`
}

function chunkedText(random: Random, parts: readonly string[]): string {
  const chunks = parts.map((part) => {
    const size = part.length.toString(16).padStart(1 + random.below(3), '0')
    return `${size}${random.pick(extensions)}\r\n${part}\r\n`
  })
  return `${chunks.join('')}0${random.pick(extensions)}\r\n${random.pick(trailers)}\r\n`
}

/** Bytes with a meaning in some position, and bytes that are never valid. */
const tokens = [
  ...['\r', '\n', '\r\n', '\n\r', '\0', ' ', '\t', ':', ',', ';', '"', '\\', '+', '-', '0', '1'],
  ...['x', '_', 'f', '\x7f', '\x80', '\xff', '\x0b', '\x1f', '0x', '5', '\r\n\r\n', '\r\n ', '99'],
  ...['Content-Length: 1\r\n', 'Transfer-Encoding: chunked\r\n', 'chunked', 'HTTP/1.1 200 OK\r\n'],
]

function damaged(random: Random, whole: string): string {
  let text = whole
  for (let left = 1 + random.below(2); left > 0; left -= 1) text = damagedOnce(random, text)
  return text
}

function damagedOnce(random: Random, text: string): string {
  const at = random.below(text.length + 1)
  const [before, after] = [text.slice(0, at), text.slice(at)]
  switch (random.below(7)) {
    case 0:
    case 1:
      return before + random.pick(tokens) + after
    case 2:
      return before + random.pick(tokens) + after.slice(1)
    case 3:
      return before + after.slice(1 + random.below(3))
    case 4:
      return before
    case 5:
      return before + after.replace('\r\n', random.pick(['\n', '\r', ' \r\n', '\r\r\n', '\r\n\t']))
    default:
      return twiceALine(random, text)
  }
}

function twiceALine(random: Random, text: string): string {
  const lines = text.split('\r\n')
  const at = random.below(lines.length)
  lines.splice(random.below(lines.length), 0, lines[at] as string)
  return lines.join('\r\n')
}

function shuffled(random: Random, items: readonly string[]): string[] {
  const left = [...items]
  return items.map(() => left.splice(random.below(left.length), 1)[0] as string)
}
