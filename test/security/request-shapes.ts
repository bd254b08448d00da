/** Valid and damaged requests of clients; deterministic for a seed. */

import { type Random, seededRandom } from '../e2e/rls/random.ts'

export interface RequestShape {
  /** The bytes on the wire, one write per entry, one character per byte. */
  readonly pieces: readonly string[]
  readonly isDamaged: boolean
  /** The number of requests in it. */
  readonly count: number
}

/** Every third is valid. */
export function* requestShapes(seed: number, count: number): Generator<RequestShape> {
  const random = seededRandom(seed)
  for (let made = 0; made < count; made += 1) {
    const requests = validRequests(random, made)
    const isDamaged = made % 3 > 0
    if (isDamaged) {
      const at = random.below(requests.length)
      requests[at] = damagedRequest(random, requests[at] as RequestParts)
    }
    let text = requests.map(textOf).join('')
    if (isDamaged && random.below(3) === 0) text = damagedText(random, text)
    yield { pieces: cut(random, text), isDamaged, count: requests.length }
  }
}

interface RequestParts {
  readonly line: string
  readonly fields: readonly string[]
  readonly body: string
}

const methods = ['GET', 'GET', 'POST', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']

const hosts = ['a.example', 'A.example:8080', '127.0.0.1', '[::1]:80', 'a']

const plainFields = [
  ...['X-A: b', 'X-B:c', 'x-c: \t d e \t', 'X-Empty:', 'X-Text: \xfcber \xff', 'Accept: */*'],
  ...["!#$%&'*+-.^_`|~: odd", 'User-Agent: test', 'X-Twice: 1', 'X-Twice: 2', 'Cookie: a=b; c=d'],
  ...['X-Quoted: "a, b"', 'X-Colon: a:b: c', 'Connection: keep-alive', 'TE: trailers'],
  ...['Upgrade: h2c', 'Accept-Encoding: gzip', 'X-Odd: (){}[]<>@,;\\"/?=', 'Keep-Alive: 5'],
]

const bodyParts = [
  ...['hello', 'a', '0\r\n\r\n', '\r\n', '\xff\x00\x80', 'x'.repeat(300), '\n', '5\r\n'],
  'GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n',
]

/** More than the gateway buffers of a body before it connects to the upstream. */
const large = 'large '.repeat(15_000)

const extensions = ['', '', '', '', ';a', ';a=b', ';a="b c"', ';a=b;c=d']

const trailers = ['', '', '', 'X-Sum: 1\r\n', 'X-Sum: 1\r\nX-More: \t2\r\n']

function validRequests(random: Random, made: number): RequestParts[] {
  const count = random.below(3) === 0 ? 2 + random.below(2) : 1
  return Array.from({ length: count }, (_, at) =>
    validRequest(random, `/${made}/${at}`, at === count - 1),
  )
}

function validRequest(random: Random, path: string, isLast: boolean): RequestParts {
  const method = random.pick(methods)
  const query = random.below(4) === 0 ? random.pick(['?', '?a=b', '?a=/../b&c=%20']) : ''
  const fields = Array.from({ length: random.below(4) }, () => random.pick(plainFields))
  const parts = Array.from({ length: random.below(4) }, () => random.pick(bodyParts))
  if (random.below(40) === 0) parts.push(large)
  const isOld = isLast && random.below(12) === 0
  const framing = method === 'HEAD' ? 2 : random.below(3)
  let body = ''
  if (framing === 0) {
    body = parts.join('')
    const zeros = random.below(6) === 0 ? '00' : ''
    fields.push(`Content-Length: ${zeros}${body.length}`)
  } else if (framing === 1 && !isOld) {
    body = chunkedText(random, parts)
    fields.push(`Transfer-Encoding: ${random.pick(['chunked', 'chunked', 'Chunked'])}`)
  }
  if (body !== '' && random.below(8) === 0) fields.push('Expect: 100-continue')
  if (isLast && random.below(3) === 0) fields.push('Connection: close')
  fields.splice(random.below(fields.length + 1), 0, `Host: ${random.pick(hosts)}`)
  const before = random.below(12) === 0 ? '\r\n' : ''
  return { line: `${before}${method} ${path}${query} HTTP/1.${isOld ? 0 : 1}`, fields, body }
}

function chunkedText(random: Random, parts: readonly string[]): string {
  const chunks = parts.map((part) => {
    const size = part.length.toString(16).padStart(1 + random.below(3), '0')
    const spelled = random.below(2) === 0 ? size : size.toUpperCase()
    return `${spelled}${random.pick(extensions)}\r\n${part}\r\n`
  })
  return `${chunks.join('')}0${random.pick(extensions)}\r\n${random.pick(trailers)}\r\n`
}

function textOf({ line, fields, body }: RequestParts): string {
  return `${[line, ...fields].join('\r\n')}\r\n\r\n${body}`
}

/** Invalid or rare parts of the request line. */
const oddMethods = [
  ...['', 'get', 'GE T', 'G@T', 'GET:', 'BREW', 'PRI', 'CONNECT', 'TRACE', 'QUERY'],
  ...['X'.repeat(50), 'G\xcbT', 'GET\0', ' GET', '\tGET', 'PURGE', 'SOURCE', 'DESCRIBE'],
]
const oddTargets = [
  ...['', '*', 'a', 'http://a.example/x', 'https://a/x', '//x/../y', '/a b', '/\xe9', '/a#b', '/%'],
  ...['/%61', '/\x01', '/a\x7f', '/?\x00', '/a\tb', '/\\', '/?a=\xff', '/..;/x', '/"<>', 'a:80'],
]
const oddVersions = [
  ...['HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', 'HTTP/1.1 ', 'HTTP/1', 'HTTP/11', ''],
  ...['HTTP/1.10', 'HTP/1.1', 'ICE/1.0', 'RTSP/1.0', 'HTTP/1.1\t', 'HTTP/01.1', 'HTTP/1,1'],
]
const gaps = ['\t', '  ', '\x0b', '', '\r', '\n', '\xa0', ' \t']

const oddFields = [
  ...['X : a', 'X\t: a', ' X: a', '\tX: a', ': a', 'X', '', 'X\0: a', 'X-A: a\0b', 'X-A: \x01'],
  ...['X-A: a\x7f', 'X\x80: a', 'X(: a', 'X-A: a\rb', 'X-A: a\nb', 'X-A: a\r\n b', 'X-A:\r\n\tb'],
  ...['X-A: a\x0bb', 'X-A:\x0ca', '"X": a', 'X-A: a\x1b[0m', 'X[]: a', 'X;: a', 'X/: a', 'X@: a'],
]
const oddHosts = [
  ...['Host:', 'Host: a.example', 'Host: b.example', 'host: a.example', 'Host: a b', 'Host: a/b'],
  ...['Host: u@a', 'Host: a,b', 'Host: [::1', 'Host: a:99999999', 'Host: a:b', 'Host: \xe9'],
]
const lengths = [
  ...[
    '0',
    '1',
    '5',
    '5, 5',
    '5,6',
    '+5',
    '-1',
    '0x5',
    '1 0',
    '5.0',
    '',
    '5;',
    '1e1',
    '\xb2',
    '5\t',
  ],
  ...['9'.repeat(30), '18446744073709551616', '18446744073709551621', '4294967301', '1_0', '"5"'],
]
const codings = [
  ...['chunked', 'identity', 'gzip', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked'],
  ...[
    'xchunked',
    'chunked;q=1',
    '"chunked"',
    '',
    ',chunked',
    'chunked,',
    '\x0bchunked',
    'chun ked',
  ],
  ...['chunked\x0b', 'CHUNKED', 'chunked, identity', 'identity, chunked', ' chunked ', 'chunkedd'],
]
/** No request asks for an upgrade: node ignores bytes after one that it does not perform. */
const connections = [
  ...['close', 'Close', 'keep-alive, close', 'close, keep-alive', 'x-a', 'host', ',,'],
  ...['content-length', 'transfer-encoding', 'closed', 'close;', 'keep-alive', 'x-forwarded-for'],
]
const others = [
  ...['Expect: 100-continue', 'Expect: 200-ok', 'Expect:', 'Expect: 100-continue, x'],
  ...[
    'Content_Length: 5',
    'Transfer_Encoding: chunked',
    'Content-Length : 5',
    'Upgrade: websocket',
  ],
  ...[
    'Transfer-Encoding : chunked',
    ' Content-Length: 5',
    'X-Forwarded-For: 6.6.6.6',
    'Trailer: x',
  ],
]
const sizes = [
  ...['', '+1', '-1', '0x1', '1_0', '1 ', ' 1', '1\t', 'g', '1;', '1;;', '1;=', '1;a="', '1;a=\0'],
  ...['00000000000000001', '10000000000000001', '20000000000001', 'ffffffffffffffff', '1,1', '1.0'],
  ...['1;a\rb', '1;a\nb', '1\r', '1\x0b', '-0', '+0', '0 ', '0;', '00', '1h', '1:', '1=', '\0'],
]
const lineEnds = [
  '\n',
  '\r',
  ' \r\n',
  '\r\r\n',
  '\n\r',
  '\r\n\r\n',
  '',
  '\r\n ',
  '\r\n\t',
  '\t\r\n',
]

function damagedRequest(random: Random, request: RequestParts): RequestParts {
  let found = request
  for (let left = 1 + random.below(2); left > 0; left -= 1) found = damagedOnce(random, found)
  return found
}

function damagedOnce(random: Random, request: RequestParts): RequestParts {
  const { line, fields, body } = request
  const withField = (field: string) => ({ ...request, fields: inserted(random, fields, field) })
  switch (random.below(11)) {
    case 0:
      return { ...request, line: damagedLine(random, line) }
    case 1:
      return withField(random.pick(oddFields))
    case 2:
      return withField(random.pick(oddHosts))
    case 3:
      return { ...request, fields: fields.filter((field) => !field.startsWith('Host:')) }
    case 4:
      return withField(`Content-Length: ${random.pick(lengths)}`)
    case 5:
      return withField(`Transfer-Encoding: ${random.pick(codings)}`)
    case 6:
      return withField(`Connection: ${random.pick(connections)}`)
    case 7:
      return withField(random.pick(others))
    case 8:
      return { ...request, body: replacedOnce(random, body, /\r\n/g, random.pick(lineEnds)) }
    default: {
      const text = chunkedText(random, [random.pick(bodyParts), random.pick(bodyParts)])
      const chunks = replacedOnce(random, text, /^[0-9a-f]+/gim, random.pick(sizes))
      const plain = fields.filter((field) => !/^(content-length|transfer-enc)/i.test(field))
      return { line, fields: [...plain, 'Transfer-Encoding: chunked'], body: chunks }
    }
  }
}

function damagedLine(random: Random, line: string): string {
  const [method = '', target = '', version = ''] = line.split(' ')
  switch (random.below(5)) {
    case 0:
      return `${random.pick(oddMethods)} ${target} ${version}`
    case 1:
      return `${method} ${random.pick(oddTargets)} ${version}`
    case 2:
      return `${method} ${target} ${random.pick(oddVersions)}`
    case 3:
      return replacedOnce(random, line, / /g, random.pick(gaps))
    default:
      return random.pick(['\r\n', '\n', '\r', '\r\n\r\n', ' ', '\0', '\n\n', '\r\r\n']) + line
  }
}

function inserted(random: Random, items: readonly string[], item: string): string[] {
  return items.toSpliced(random.below(items.length + 1), 0, item)
}

function replacedOnce(random: Random, text: string, what: RegExp, by: string): string {
  const found = [...text.matchAll(what)]
  if (found.length === 0) return text
  const { 0: old, index } = random.pick(found)
  return text.slice(0, index) + by + text.slice(index + old.length)
}

/** Bytes with a meaning in some position, and bytes that are never valid. */
const tokens = [
  ...['\r', '\n', '\r\n', '\n\r', '\0', ' ', '\t', ':', ',', ';', '"', '\\', '+', '-', '0', '1'],
  ...['x', '_', 'f', '\x7f', '\x80', '\xff', '\x0b', '\x1f', '0x', '5', '\r\n\r\n', '\r\n ', '99'],
  ...['Content-Length: 1\r\n', 'Transfer-Encoding: chunked\r\n', 'chunked', ' HTTP/1.1\r\n'],
]

function damagedText(random: Random, text: string): string {
  const at = random.below(text.length + 1)
  const [before, after] = [text.slice(0, at), text.slice(at)]
  switch (random.below(5)) {
    case 0:
      return before + random.pick(tokens) + after
    case 1:
      return before + random.pick(tokens) + after.slice(1)
    case 2:
      return before + after.slice(1 + random.below(3))
    case 3:
      return before
    default:
      return replacedOnce(random, text, /\r\n/g, random.pick(lineEnds))
  }
}

/** Mostly one chunk; else a few chunks, or single bytes. */
function cut(random: Random, text: string): string[] {
  if (random.below(3) > 0) return [text]
  if (random.below(16) === 0 && text.length < large.length) return [...text]
  const ends = Array.from({ length: 1 + random.below(5) }, () => random.below(text.length + 1))
  const places = [0, ...ends.sort((one, other) => one - other), text.length]
  const pieces = places.slice(1).map((end, at) => text.slice(places[at], end))
  return pieces.filter((piece) => piece !== '')
}
