/**
 * Requests of HTTP/1 by the text of RFC 9110 and 9112 and by known attacks, each with the statuses
 * that a client gets and the requests that the upstream sees. They go beyond smuggling-shapes.ts,
 * which asks only that the two agree.
 */

export interface ProtocolCase {
  readonly name: string
  /** All bytes that a client sends on a connection, one character per byte. */
  readonly bytes: string
  /** Final statuses, in their order. */
  readonly statuses: readonly number[]
  /** Method, target and body length of each request that reaches the upstream. */
  readonly seen: readonly string[]
}

const HOST = 'Host: a.example'
const next = `GET /next HTTP/1.1\r\n${HOST}\r\n\r\n`
const NEXT = 'GET /next 0'

const head = (line: string, ...fields: string[]) => `${[line, ...fields].join('\r\n')}\r\n\r\n`
const get = (...fields: string[]) => head('GET /a HTTP/1.1', HOST, ...fields)
const post = (...fields: string[]) => head('POST /a HTTP/1.1', HOST, ...fields)
const chunked = (body: string) => post('Transfer-Encoding: chunked') + body
const target = (text: string) => head(`GET ${text} HTTP/1.1`, HOST)

type Row = readonly [name: string, bytes: string, statuses: readonly number[], seen?: string[]]

/** A request that is refused and ends the connection; following bytes are ignored. */
const refused = (name: string, bytes: string, status = 400): Row => [name, bytes + next, [status]]

/** A request that is forwarded, followed by another that is forwarded too. */
const passed = (name: string, bytes: string, seen: string): Row => [
  ...([name, bytes + next, [200, 200]] as const),
  [seen, NEXT],
]

/** https://www.rfc-editor.org/rfc/rfc9112#section-3.2 and section 7.1 of RFC 9110 */
const targets: readonly Row[] = [
  passed('an absolute form with the same host', target('http://a.example/a'), 'GET /a 0'),
  passed('an absolute form in capitals', target('HTTP://A.EXAMPLE/a'), 'GET /a 0'),
  passed('an absolute form without a path', target('http://a.example'), 'GET / 0'),
  passed('an absolute form with a query only', target('http://a.example?b'), 'GET /?b 0'),
  ['an absolute form of another host', target('http://b.example/a') + next, [400, 200], [NEXT]],
  ['an absolute form with a user', target('http://u@a.example/a') + next, [400, 200], [NEXT]],
  [
    'an absolute form with another port',
    target('http://a.example:81/a') + next,
    [400, 200],
    [NEXT],
  ],
  refused('an absolute form of FTP', target('ftp://a.example/a')),
  refused('an absolute form of no scheme', target('a.example/a')),
  refused('an asterisk with a path', target('*/a')),
  ['an asterisk of GET', target('*') + next, [400, 200], [NEXT]],
  refused('an empty target', 'GET  HTTP/1.1\r\nHost: a.example\r\n\r\n'),
  refused('a fragment first', target('#a')),
  ['a fragment behind the path', target('/a#b') + next, [400, 200], [NEXT]],
  ['a backslash', target('/a\\b') + next, [400, 200], [NEXT]],
  ['an encoded NUL', target('/a%00') + next, [400, 200], [NEXT]],
  ['an encoded slash', target('/a%2fb') + next, [400, 200], [NEXT]],
  ['an encoded CR LF', target('/a%0d%0aX:y') + next, [400, 200], [NEXT]],
  refused('a byte beyond ASCII', target('/\xe9')),
  refused('an ideographic space', target('/a\xe3\x80\x80b')),
  passed('dots above the root', target('/../../a'), 'GET /a 0'),
  passed('two slashes first', target('//b.example/a'), 'GET /b.example/a 0'),
]

/** https://www.rfc-editor.org/rfc/rfc9112#section-3 and section 2.2 */
const lines: readonly Row[] = [
  refused('no version', 'GET /a\r\nHost: a.example\r\n\r\n'),
  refused('a version of 1.1.1', head('GET /a HTTP/1.1.1', HOST)),
  refused('a version of 1.9', head('GET /a HTTP/1.9', HOST)),
  refused('a version of 3', head('GET /a HTTP/3', HOST)),
  refused('a version with a plus', head('GET /a HTTP/1.+1', HOST)),
  refused('a version of HTTPS', head('GET /a HTTPS/1.1', HOST)),
  refused('two versions', head('GET /a HTTP/1.1 HTTP/1.1', HOST)),
  refused('a vertical tab for a space', head('GET\x0b/a HTTP/1.1', HOST)),
  refused('a no-break space', head('GET\xa0/a HTTP/1.1', HOST)),
  refused('a CR before the line', `\r${get()}`),
  refused('an LF before the line', `\n${get()}`),
  passed('an empty line before the line', `\r\n${get()}`, 'GET /a 0'),
  refused('a byte order mark', `\xef\xbb\xbf${get()}`),
  refused('a quoted method', get().replace('GET', '"GET"')),
  refused('TLS in clear text', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n'),
  refused('a proxy header', 'PROXY TCP4 6.6.6.6 127.0.0.1 1 2\r\n'),
  refused('a proxy header, version 2', '\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c'),
]

/** https://www.rfc-editor.org/rfc/rfc9112#section-5 and section 5.5 of RFC 9110 */
const fields: readonly Row[] = [
  refused('a tab before a colon', get('X\t: y')),
  refused('a field of a colon only', get(':')),
  refused('a CR at the end of a value', get('X: y\r')),
  refused('an escape in a value', get('X: \x1b[2J')),
  refused('a DEL in a value', get('X: \x7f')),
  refused('a name in quotes', get('"X": y')),
  refused('a comma in a name', get('X,Y: z')),
  refused('a slash in a name', get('X/Y: z')),
  passed('an empty value', get('X:'), 'GET /a 0'),
  passed('bytes beyond ASCII in a value', get('X: \xe9\xff'), 'GET /a 0'),
  refused('a fold at the end of a head', `${get('X: y').slice(0, -4)}\r\n \r\n\r\n`),
  refused('a fold behind the request line', 'GET /a HTTP/1.1\r\n x\r\nHost: a.example\r\n\r\n'),
  refused('an empty Host', head('GET /a HTTP/1.1', 'Host:')),
  refused('a Host in brackets only', head('GET /a HTTP/1.1', 'Host: []')),
  refused('a Host with a comma', head('GET /a HTTP/1.1', 'Host: a,b')),
  refused('a Host with a space', head('GET /a HTTP/1.1', 'Host: a b')),
  refused('two Hosts that are equal', get(HOST)),
  passed(
    'HTTP/1.0 with keep-alive',
    head('GET /a HTTP/1.0', HOST, 'Connection: keep-alive'),
    'GET /a 0',
  ),
  ['HTTP/1.0 without keep-alive', head('GET /a HTTP/1.0', HOST) + next, [200], ['GET /a 0']],
  ['Connection: close', get('Connection: close') + next, [200], ['GET /a 0']],
  ['close among others', get('Connection: x, CLOSE , y') + next, [200], ['GET /a 0']],
]

/** https://www.rfc-editor.org/rfc/rfc9112#section-6 and 7 */
const bodies: readonly Row[] = [
  passed('a length of 0', post('Content-Length: 0'), 'POST /a 0'),
  passed('a length with zeros', `${post('Content-Length: 000005')}hello`, 'POST /a 5'),
  refused('two lengths in two cases', `${post('Content-Length: 5', 'content-length: 6')}hello!`),
  refused('a length that is a list', `${post('Content-Length: 0, 5')}hello`),
  refused('a length in other digits', `${post('Content-Length: \xd9\xa5')}hello`),
  refused('a length with a quote', `${post("Content-Length: '5'")}hello`),
  refused('0.CL: a length behind a colon', `${post('Content-Length: :5')}hello`),
  refused(
    'a coding of nothing and a length',
    `${post('Transfer-Encoding: ,', 'Content-Length: 5')}hello`,
    501,
  ),
  refused('chunked and a comma', `${post('Transfer-Encoding: chunked,')}0\r\n\r\n`, 501),
  passed('chunks in capitals', chunked('A\r\n0123456789\r\n0\r\n\r\n'), 'POST /a 10'),
  passed('a chunk size with zeros', chunked('0000000005\r\nhello\r\n0\r\n\r\n'), 'POST /a 5'),
  passed('a quoted chunk extension', chunked('5;a="b;c"\r\nhello\r\n0\r\n\r\n'), 'POST /a 5'),
  passed('trailers', chunked('5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n'), 'POST /a 5'),
  refused('a bare LF in the trailers', chunked('0\r\nX: y\n\r\n')),
  refused('a trailer without a colon', chunked('0\r\nX\r\n\r\n')),
  refused('a space before a trailer', chunked('0\r\n X: y\r\n\r\n')),
  refused('a chunk size in octal', chunked('0o5\r\nhello\r\n0\r\n\r\n')),
  refused('a chunk size with a comma', chunked('5,5\r\nhello\r\n0\r\n\r\n')),
  refused('a chunk size with a point', chunked('5.0\r\nhello\r\n0\r\n\r\n')),
  refused('a chunk size behind a tab', chunked('\t5\r\nhello\r\n0\r\n\r\n')),
  refused('a chunk size of 17 digits', chunked(`${'0'.repeat(16)}5\r\nhello\r\n0\r\n\r\n`)),
  refused('a chunk end of CR only', chunked('5\r\nhello\r0\r\n\r\n')),
  refused('a chunk end of LF CR', chunked('5\r\nhello\n\r0\r\n\r\n')),
  refused('a CR LF too many', chunked('5\r\nhello\r\n\r\n0\r\n\r\n')),
  refused('an extension with a tab', chunked('5;a\tb\x01\r\nhello\r\n0\r\n\r\n')),
  passed('a body of GET', `${get('Content-Length: 5')}hello`, 'GET /a 5'),
  passed(
    'a body of DELETE',
    `${head('DELETE /a HTTP/1.1', HOST, 'Content-Length: 5')}hello`,
    'DELETE /a 5',
  ),
  ['a HEAD', head('HEAD /a HTTP/1.1', HOST) + next, [200, 200], ['HEAD /a 0', NEXT]],
  ['a TRACE', head('TRACE /a HTTP/1.1', HOST) + next, [405, 200], [NEXT]],
  refused('a CONNECT', head('CONNECT a.example:80 HTTP/1.1', HOST), 405),
]

/** https://www.rfc-editor.org/rfc/rfc9110#section-7.8 and 10.1.1 */
const upgrades: readonly Row[] = [
  passed('an upgrade without Connection', get('Upgrade: h2c'), 'GET /a 0'),
  passed(
    'h2c with settings',
    get('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'),
    'GET /a 0',
  ),
  passed('an upgrade to HTTP/2.0', get('Connection: upgrade', 'Upgrade: HTTP/2.0'), 'GET /a 0'),
  refused(
    'the preface behind a request',
    `${get()}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`.slice(get().length),
  ),
  [
    'an expectation that is unknown',
    post('Expect: 101-switch', 'Content-Length: 0') + next,
    [417, 200],
    [NEXT],
  ],
  passed(
    'an expectation without a body',
    post('Expect: 100-continue', 'Content-Length: 0'),
    'POST /a 0',
  ),
  passed(
    'an expectation in capitals',
    `${post('Expect: 100-CONTINUE', 'Content-Length: 5')}hello`,
    'POST /a 5',
  ),
]

export const protocolCases: readonly ProtocolCase[] = [
  ...targets,
  ...lines,
  ...fields,
  ...bodies,
  ...upgrades,
].map(([name, bytes, statuses, seen = []]) => ({ name, bytes, statuses, seen }))
