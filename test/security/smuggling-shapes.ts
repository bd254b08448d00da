/**
 * Bytes that two servers could split into requests differently. Each shape is one connection; 000
 * stands for its number.
 */

export type Shape = readonly [name: string, bytes: string]

/** The request that an attacker tries to smuggle. */
const whole = 'GET /smuggled-000 HTTP/1.1\r\nHost: a.example\r\n\r\n'

/** A smuggled request that swallows the next client's bytes as a field value. */
const open = 'GET /smuggled-000 HTTP/1.1\r\nHost: a.example\r\nX-Rest: '

const length = `Content-Length: ${whole.length}`
const coded = 'Transfer-Encoding: chunked'
const chunks = '1\r\nx\r\n0\r\n\r\n'
const openSize = open.length.toString(16)

const request = (method: string, fields: readonly string[]) =>
  `${[`${method} /outer-000 HTTP/1.1`, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`
const get = (...fields: string[]) => request('GET', fields)
const post = (...fields: string[]) => request('POST', fields)
const inChunks = (body: string) => `${post(coded)}${body}`
const upgrade = (...fields: string[]) => get('Connection: Upgrade', ...fields)

const lengths: readonly Shape[] = [
  ['CL.TE', `${post('Content-Length: 6', coded)}0\r\n\r\n${open}`],
  ['TE.CL', `${post(coded, 'Content-Length: 4')}${openSize}\r\n${open}\r\n0\r\n\r\n`],
  ['two equal lengths', `${post('Content-Length: 5', 'Content-Length: 5')}hello${whole}`],
  ['two lengths', `${post('Content-Length: 5', 'Content-Length: 0')}hello${whole}`],
  ['two lengths in one field', `${post('Content-Length: 5, 5')}hello${whole}`],
  ['two lengths in two cases', `${post('content-length: 0', length)}${whole}`],
  ['a length with a plus', `${post('Content-Length: +5')}hello${whole}`],
  ['a length with a minus', `${post('Content-Length: -1')}${whole}`],
  ['a length in hexadecimal', `${post('Content-Length: 0x5')}hello${whole}`],
  ['a length with a space inside', `${post('Content-Length: 1 0')}hello${whole}`],
  ['a length with a comma', `${post('Content-Length: 5,')}hello${whole}`],
  ['a length with a point', `${post('Content-Length: 5.0')}hello${whole}`],
  ['an empty length', `${post('Content-Length:')}${whole}`],
  ['a length with leading zeros', `${post('Content-Length: 0005')}hello`],
  ['a length beyond any number', `${post(`Content-Length: ${'9'.repeat(30)}`)}${whole}`],
  ['a length of 2^64', `${post('Content-Length: 18446744073709551616')}${whole}`],
  ['a length with an underscore', `${post(length.replace('-', '_'))}${whole}`],
  ['a length of a GET', `${get(length)}${whole}`],
  ['a length of a HEAD', `${request('HEAD', [length])}${whole}`],
  ['a length of CONNECT', `${request('CONNECT', [length])}${whole}`],
]

const codings: readonly Shape[] = [
  ['a coding of xchunked', `${post('Transfer-Encoding: xchunked')}${chunks}${whole}`],
  ['a coding of identity', `${post('Transfer-Encoding: identity', length)}${whole}`],
  ['chunked, identity', `${post('Transfer-Encoding: chunked, identity')}${chunks}${whole}`],
  ['identity, chunked', `${post('Transfer-Encoding: identity, chunked')}${chunks}`],
  ['gzip, chunked', `${post('Transfer-Encoding: gzip, chunked')}${chunks}`],
  ['chunked, chunked', `${post('Transfer-Encoding: chunked, chunked')}${chunks}`],
  ['chunked in two fields', `${post(coded, coded)}${chunks}`],
  ['chunked and cow', `${post(coded, 'Transfer-Encoding: cow')}${chunks}${open}`],
  ['cow and chunked', `${post('Transfer-Encoding: cow', coded)}${chunks}${open}`],
  ['an empty coding', `${post('Transfer-Encoding:', length)}${whole}`],
  ['chunked in quotes', `${post('Transfer-Encoding: "chunked"')}${chunks}${whole}`],
  ['chunked with a parameter', `${post('Transfer-Encoding: chunked;q=1')}${chunks}${whole}`],
  ['CHUNKED in capitals', `${post('Transfer-Encoding: CHUNKED')}${chunks}`],
  ['chunked behind a tab', `${post('Transfer-Encoding:\tchunked')}${chunks}`],
  ['chunked before spaces', `${post(`${coded}  \t`)}${chunks}`],
  ['chunked behind a vertical tab', `${post('Transfer-Encoding: \x0bchunked')}${chunks}${whole}`],
  ['chunked with a NUL', `${post(`${coded}\0`)}${chunks}${whole}`],
  [
    'a coding with an underscore',
    `${post('Transfer_Encoding: chunked', 'Content-Length: 5')}00\r\n\r`,
  ],
  [
    'a coding with a space behind its name',
    `${post('Transfer-Encoding : chunked')}${chunks}${whole}`,
  ],
  ['a coding in HTTP/1.0', `${post(coded).replace('1.1', '1.0')}${chunks}${whole}`],
  ['a coding of a GET', `${get(coded)}${openSize}\r\n${open}\r\n0\r\n\r\n`],
]

const lines: readonly Shape[] = [
  ['a coding on a folded line', `${post('X: y', ` ${coded}`)}${chunks}${whole}`],
  ['a folded coding', `${post('Transfer-Encoding:', ' chunked')}${chunks}${whole}`],
  ['a folded length', `${post('Content-Length: 5', '\t0')}hello${whole}`],
  ['a coding behind a bare LF', `${post(`X: y\n${coded}`)}${chunks}${whole}`],
  ['a coding behind a bare CR', `${post(`X: y\r${coded}`)}${chunks}${whole}`],
  ['a length behind CR CR LF', `${post('X: y\r', length)}${whole}`],
  ['bare LFs only', post('Content-Length: 5').replaceAll('\r\n', '\n')],
  ['an end of LF LF', `${get().slice(0, -4)}\n\n${whole}`],
  ['an end of LF CR LF', `${get().slice(0, -4)}\n\r\n${whole}`],
  ['an end of CR LF LF', `${get().slice(0, -4)}\r\n\n${whole}`],
  ['a space before the first field', get().replace('\r\nHost', '\r\n Host')],
  ['a line without a colon', get('nothing')],
  ['a field without a name', get(': x')],
  ['a NUL in a value', get('X: a\0b')],
  ['a DEL in a name', get('X\x7f: a')],
  ['a name beyond ASCII', get('X\xe9: a')],
  ['a name in brackets', get('X[]: a')],
  ['two Hosts', get('Host: b.example')],
  ['no Host', get().replace('Host: a.example\r\n', '')],
  ['a Host with a path', get().replace('a.example', 'a.example/smuggled-000')],
  ['a Host with a user', get().replace('a.example', 'a.example@b.example')],
  ['__proto__ as a name', get('__proto__: x', 'constructor: y')],
]

const chunkings: readonly Shape[] = [
  ['a chunk size of nothing', inChunks(`\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size with 0x', inChunks(`0x1\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size with a plus', inChunks(`+1\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size with a minus', inChunks(`-1\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size beyond 2^64', inChunks(`10000000000000001\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size of 2^53 and more', inChunks(`20000000000001\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size before a space', inChunks(`1 \r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size behind a space', inChunks(` 1\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk longer than it says', inChunks(`1\r\nxx\r\n0\r\n\r\n${whole}`)],
  ['a chunk with a bare LF behind it', inChunks(`1\r\nx\n0\r\n\r\n${whole}`)],
  ['a chunk with nothing behind it', inChunks(`1\r\nx0\r\n\r\n${whole}`)],
  ['a chunk size with a bare LF', inChunks(`1\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk size with a bare CR', inChunks(`1\rx\r\n0\r\n\r\n${whole}`)],
  ['an LF in a chunk extension', inChunks(`1;a\nb\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a CR in a chunk extension', inChunks(`1;a\rb\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a NUL in a chunk extension', inChunks(`1;a\0b\r\nx\r\n0\r\n\r\n${whole}`)],
  ['an open quote in a chunk extension', inChunks(`1;a="\r\nx\r\n0\r\n\r\n${whole}`)],
  ['a chunk extension', inChunks('1;a=b\r\nx\r\n0\r\n\r\n')],
  ['64 KB of chunk extensions', inChunks(`1;${'a'.repeat(65_536)}\r\nx\r\n0\r\n\r\n`)],
  ['a last chunk of 00000', inChunks('1\r\nx\r\n00000\r\n\r\n')],
  ['a last chunk without its end', inChunks(`0\r\n${whole}`)],
  ['a last chunk with a bare LF', inChunks(`0\r\n\n${whole}`)],
  ['a length in the trailers', inChunks(`1\r\nx\r\n0\r\n${length}\r\n\r\n`)],
  ['a coding in the trailers', inChunks(`0\r\nTransfer-Encoding: x\r\n\r\n${whole}`)],
  ['a folded trailer', inChunks(`0\r\nX: y\r\n z\r\n\r\n${whole}`)],
]

const lineTricks: readonly Shape[] = [
  ['an expectation and its body', `${post('Expect: 100-continue', length)}${whole}`],
  ['an unknown expectation', `${post('Expect: 200-ok', length)}${whole}`],
  ['an expectation without a body', get('Expect: 100-continue')],
  ['two expectations', `${post('Expect: 100-continue', 'Expect: x', length)}${whole}`],
  ['an upgrade to h2c', upgrade('Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__') + whole],
  ['an upgrade to h2c with a body', `${upgrade('Upgrade: h2c', length)}${whole}`],
  ['an upgrade to websocket, refused', `${upgrade('Upgrade: websocket')}${whole}`],
  ['an upgrade to websocket with a body', `${upgrade('Upgrade: websocket', length)}${whole}`],
  ['an upgrade to websocket and h2c', `${upgrade('Upgrade: websocket, h2c')}${whole}`],
  ['an upgrade to TLS', `${upgrade('Upgrade: TLS/1.0')}${whole}`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a version of 1.2', get().replace('1.1', '1.2')],
  ['a version of 2.0', get().replace('1.1', '2.0')],
  ['a version of 0.9', 'GET /outer-000\r\n\r\n'],
  ['a version in lower case', get().replace('HTTP/1.1', 'http/1.1')],
  ['a version with a zero', get().replace('1.1', '01.1')],
  ['a space in the target', get().replace('/outer', '/ou ter')],
  ['a tab in the target', get().replace('/outer', '/ou\tter')],
  ['a CR in the target', get().replace('/outer', '/ou\rter')],
  [
    'a request in the target',
    get().replace('-000', '-000 HTTP/1.1\r\nX: y\r\n\r\nGET /smuggled-000'),
  ],
  ['two spaces in the line', get().replace(' /outer', '  /outer')],
  ['a tab in the line', get().replace(' /outer', '\t/outer')],
  ['a space behind the version', get().replace('HTTP/1.1', 'HTTP/1.1 ')],
  ['a method with a colon', get().replace('GET', 'GET:')],
  ['an unknown method', get().replace('GET', 'SMUGGLE')],
  ['a method in lower case', get().replace('GET', 'get')],
  ['empty lines before the line', `\r\n\r\n${get()}`],
  ['no HTTP at all', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
]

export const smugglingShapes: readonly Shape[] = [
  ...lengths,
  ...codings,
  ...lines,
  ...chunkings,
  ...lineTricks,
]
