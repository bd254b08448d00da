/**
 * HTTP/2 requests that would become two HTTP/1 requests, or a different one, if written unchanged.
 */

import type { Fields } from './frame-client.ts'

/** The fields replace those of the same name in an ordinary request; 000 stands for its number. */
export type DowngradeShape = readonly [name: string, fields: Fields, body?: string]

const whole = 'GET /smuggled-000 HTTP/1.1\r\nHost: a.example\r\n\r\n'

export const downgradeShapes: readonly DowngradeShape[] = [
  ['CR LF in a value', [['x-a', 'b\r\nTransfer-Encoding: chunked']]],
  ['a request in a value', [['x-a', `b\r\n\r\n${whole}`]]],
  ['an LF in a value', [['x-a', 'b\nc: d']]],
  ['a CR in a value', [['x-a', 'b\rc: d']]],
  ['a NUL in a value', [['x-a', 'b\0c']]],
  ['a space before a value', [['x-a', ' chunked']]],
  ['CR LF in a name', [['x-a: b\r\nx-c', 'd']]],
  ['a colon in a name', [['x-a: b', 'c']]],
  ['a space in a name', [['x a', 'b']]],
  ['a name in capitals', [['X-A', 'b']]],
  ['an empty name', [['', 'b']]],
  ['CR LF in the path', [[':path', `/outer-000 HTTP/1.1\r\nHost: a\r\n\r\n${whole}`]]],
  ['a space in the path', [[':path', '/outer-000 HTTP/1.1']]],
  ['CR LF in the method', [[':method', 'GET /smuggled-000 HTTP/1.1\r\nHost: a\r\n\r\nGET']]],
  ['a space in the method', [[':method', 'GET /smuggled-000 HTTP/1.1']]],
  ['an empty method', [[':method', '']]],
  ['CR LF in the authority', [[':authority', 'a.example\r\nX: y']]],
  ['a path in the authority', [[':authority', 'a.example/smuggled-000?']]],
  ['a user in the authority', [[':authority', 'a.example@b.example']]],
  ['an empty authority', [[':authority', '']]],
  ['CR LF in the scheme', [[':scheme', 'https\r\nX: y']]],
  ['a path in the scheme', [[':scheme', 'http://a.example/smuggled-000?']]],
  ['a coding', [['transfer-encoding', 'chunked']], `0\r\n\r\n${whole}`],
  ['a coding of trailers', [['transfer-encoding', 'trailers']]],
  ['a connection', [['connection', 'x-forwarded-for']]],
  ['keep-alive', [['keep-alive', 'timeout=5']]],
  ['an upgrade', [['upgrade', 'websocket']]],
  ['TE of chunked', [['te', 'chunked']]],
  ['a length that is too small', [['content-length', '0']], whole],
  ['a length that is too large', [['content-length', '900']], 'short'],
  [
    'two equal lengths',
    [
      ['content-length', '5'],
      ['content-length', '5'],
    ],
    'hello',
  ],
  [
    'two lengths',
    [
      ['content-length', '5'],
      ['content-length', '0'],
    ],
    'hello',
  ],
  ['a length with a plus', [['content-length', '+5']], 'hello'],
  ['a length with an underscore', [['content_length', '900']], 'hello'],
  ['a length without a body', [['content-length', '45']]],
  ['another Host', [['host', 'b.example']]],
  [
    'two Hosts',
    [
      ['host', 'a.example'],
      ['host', 'b.example'],
    ],
  ],
  [
    'a second path',
    [
      [':path', '/outer-000'],
      [':path', '/smuggled-000'],
    ],
  ],
  [
    'a second method',
    [
      [':method', 'GET'],
      [':method', 'POST'],
    ],
  ],
  ['a status', [[':status', '200']]],
  ['an unknown pseudo field', [[':smuggled', 'x']]],
  [
    'CONNECT with a protocol',
    [
      [':method', 'CONNECT'],
      [':protocol', 'websocket'],
    ],
  ],
  ['CONNECT', [[':method', 'CONNECT']]],
  ['__proto__ as a name', [['__proto__', 'x']]],
]
