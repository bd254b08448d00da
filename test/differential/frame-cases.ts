/**
 * Frames of HTTP/2 by the text of RFC 9113 and 9218 and by known attacks, each with its outcome:
 * the status or the reset of stream 1, or the code of GOAWAY, and whether a request goes upstream.
 */

import { flags, frame, frameTypes } from '../../packages/server/src/rls/transport/http2/frames.ts'
import { block, type Fields, requestFields } from '../security/frame-client.ts'

export interface FrameCase {
  readonly name: string
  readonly frames: readonly Buffer[]
  /** Such as `200`, `reset 1` and `goaway 1`. */
  readonly outcome: string
  readonly seen: readonly string[]
}

const word = (value: number) => Buffer.from([value >>> 24, value >>> 16, value >>> 8, value])
const control = (type: number, payload: Buffer, id = 0, flag = 0) => frame(type, flag, id, payload)

const whole = flags.endHeaders | flags.endStream
const headers = (fields: Fields, flag = whole, id = 1) =>
  frame(frameTypes.headers, flag, id, block(fields))
const get = (...fields: Fields) => headers(requestFields('/a', ...fields))
const post = (...fields: Fields) =>
  headers(requestFields('/a', [':method', 'POST'], ...fields), flags.endHeaders)
const data = (text: string, flag: number = flags.endStream) =>
  frame(frameTypes.data, flag, 1, Buffer.from(text, 'latin1'))
const without = (name: string) => headers(requestFields('/a').filter(([field]) => field !== name))

type Row = readonly [name: string, outcome: string, ...frames: Buffer[]]

/** https://www.rfc-editor.org/rfc/rfc9113#section-8: malformed requests. */
const malformed: readonly Row[] = [
  ['no method', 'reset 1', without(':method')],
  ['no scheme', 'reset 1', without(':scheme')],
  ['no path', 'reset 1', without(':path')],
  ['no authority and no host', 'reset 1', without(':authority')],
  ['an empty path', 'reset 1', get([':path', ''])],
  ['a path without a slash', 'reset 1', get([':path', 'a'])],
  ['a path of an asterisk', 'reset 1', get([':path', '*'])],
  ['a path with a fragment', '400', get([':path', '/a#b'])],
  ['an unknown pseudo field', 'reset 1', get([':x', 'y'])],
  ['a pseudo field of responses', 'reset 1', get([':status', '200'])],
  ['a pseudo field twice', 'reset 1', headers([...requestFields('/a'), [':path', '/b']])],
  ['a pseudo field last', 'reset 1', headers([['x', 'y'], ...requestFields('/a')])],
  ['extended CONNECT', 'reset 1', get([':protocol', 'websocket'])],
  ['connection', 'reset 1', get(['connection', 'close'])],
  ['transfer-encoding', 'reset 1', get(['transfer-encoding', 'chunked'])],
  ['upgrade', 'reset 1', get(['upgrade', 'h2c'])],
  ['keep-alive', 'reset 1', get(['keep-alive', '5'])],
  ['proxy-connection', 'reset 1', get(['proxy-connection', 'close'])],
  ['te of gzip', 'reset 1', get(['te', 'gzip'])],
  ['a host that differs', '400', get(['host', 'b.example'])],
  ['a method in lower case', '400', get([':method', 'get'])],
  ['a method that is unknown', '400', get([':method', 'SMUGGLE'])],
  ['TRACE', '405', get([':method', 'TRACE'])],
  ['two lengths', 'reset 1', post(['content-length', '5'], ['content-length', '5'])],
  ['a length that is not a number', 'reset 1', post(['content-length', 'x'])],
  // node:http2 ends the connection, which RFC 9113 5.4 allows.
  ['more data than said', 'goaway 2', post(['content-length', '1']), data('xx')],
  ['less data than said', 'reset 1', post(['content-length', '9']), data('x')],
  ['an unknown expectation', '417', get(['expect', 'x'])],
]

/** https://www.rfc-editor.org/rfc/rfc9113#section-6: frames that end the connection. */
const connectionErrors: readonly Row[] = [
  ['data on stream 0', 'goaway 1', frame(frameTypes.data, 0, 0, Buffer.from('x'))],
  ['headers on stream 0', 'goaway 1', headers(requestFields('/a'), whole, 0)],
  ['headers on an even stream', 'goaway 1', headers(requestFields('/a'), whole, 2)],
  ['data on an idle stream', 'goaway 1', data('x')],
  ['a reset of an idle stream', 'goaway 1', control(frameTypes.reset, word(8), 1)],
  ['a reset of 3 bytes', 'goaway 6', control(frameTypes.reset, Buffer.alloc(3), 1)],
  ['a window of an idle stream', 'goaway 1', control(frameTypes.windowUpdate, word(1), 1)],
  ['a window that opens by 0', 'goaway 1', control(frameTypes.windowUpdate, word(0))],
  ['a window that overflows', 'goaway 3', control(frameTypes.windowUpdate, word(0x7fffffff))],
  ['a window of 5 bytes', 'goaway 6', control(frameTypes.windowUpdate, Buffer.alloc(5))],
  ['settings of a stream', 'goaway 1', control(frameTypes.settings, Buffer.alloc(0), 1)],
  ['settings of 5 bytes', 'goaway 6', control(frameTypes.settings, Buffer.alloc(5))],
  [
    'an acknowledgement with settings',
    'goaway 6',
    control(frameTypes.settings, Buffer.alloc(6), 0, flags.ack),
  ],
  [
    'a first window of 2^31',
    'goaway 3',
    control(frameTypes.settings, Buffer.from([0, 4, 128, 0, 0, 0])),
  ],
  ['a frame size of 1', 'goaway 1', control(frameTypes.settings, Buffer.from([0, 5, 0, 0, 0, 1]))],
  ['push of 9', 'goaway 1', control(frameTypes.settings, Buffer.from([0, 2, 0, 0, 0, 9]))],
  ['a ping of 7 bytes', 'goaway 6', control(frameTypes.ping, Buffer.alloc(7))],
  ['a ping of a stream', 'goaway 1', control(frameTypes.ping, Buffer.alloc(8), 1)],
  ['a push promise', 'goaway 1', control(frameTypes.pushPromise, word(2), 1, flags.endHeaders)],
  ['a continuation of nothing', 'goaway 1', control(frameTypes.continuation, Buffer.alloc(1), 1)],
  [
    'a ping within a header block',
    'goaway 1',
    headers(requestFields('/a'), 0),
    control(frameTypes.ping, Buffer.alloc(8)),
  ],
  [
    'a continuation of another stream',
    'goaway 1',
    headers(requestFields('/a'), 0),
    control(frameTypes.continuation, Buffer.alloc(1), 3),
  ],
  [
    'padding longer than its frame',
    'goaway 1',
    post(),
    frame(frameTypes.data, flags.padded, 1, Buffer.from([9, 1])),
  ],
  ['a frame of 16,385 bytes', 'goaway 6', post(), data('x'.repeat(16_385))],
  [
    'an index of no field',
    'goaway 9',
    frame(frameTypes.headers, whole, 1, Buffer.from([0xff, 0x7f])),
  ],
  ['an index of 0', 'goaway 9', frame(frameTypes.headers, whole, 1, Buffer.from([0x80]))],
  [
    'a table that is too large',
    'goaway 9',
    frame(frameTypes.headers, whole, 1, Buffer.from([0x3f, 0xe2, 0xff, 0x03])),
  ],
  [
    'a length that never ends',
    'goaway 9',
    frame(frameTypes.headers, whole, 1, Buffer.alloc(20, 0xff)),
  ],
]

const PRIORITY_UPDATE = 0x10

/** Frames that change nothing, and requests that are valid. */
const passed: readonly (readonly [name: string, seen: string, ...frames: Buffer[]])[] = [
  ['an unknown frame', 'GET /a 0', control(0xbb, Buffer.alloc(9)), get()],
  [
    'an unknown setting',
    'GET /a 0',
    control(frameTypes.settings, Buffer.from([9, 9, 0, 0, 0, 1])),
    get(),
  ],
  [
    'a priority update',
    'GET /a 0',
    control(PRIORITY_UPDATE, Buffer.from('\0\0\0\x01u=0', 'latin1')),
    get(),
  ],
  ['a priority field', 'GET /a 0', get(['priority', 'u=9, i=?2, x'])],
  ['a ping', 'GET /a 0', control(frameTypes.ping, Buffer.alloc(8)), get()],
  ['te of trailers', 'GET /a 0', get(['te', 'trailers'])],
  ['a host that is equal', 'GET /a 0', get(['host', 'a.example'])],
  [
    'a host instead of an authority',
    'GET /a 0',
    headers([
      ...requestFields('/a').filter(([name]) => name !== ':authority'),
      ['host', 'a.example'],
    ]),
  ],
  [
    'data in empty frames',
    'POST /a 2',
    post(),
    data('', 0),
    data('x', 0),
    data('', 0),
    data('y', 0),
    data(''),
  ],
  [
    'data with padding',
    'POST /a 1',
    post(),
    frame(frameTypes.data, flags.padded | flags.endStream, 1, Buffer.from('\x03x\0\0\0', 'latin1')),
  ],
  ['trailers', 'POST /a 1', post(), data('x', 0), headers([['x-sum', '1']])],
  ['an expectation', 'POST /a 1', post(['expect', '100-continue']), data('x')],
  ['cookies in two fields', 'GET /a 0', get(['cookie', 'a=b'], ['cookie', 'c=d'])],
  ['a body that looks like a request', 'POST /a 18', post(), data('GET / HTTP/1.1\r\n\r\n')],
]

export const frameCases: readonly FrameCase[] = [
  ...[...malformed, ...connectionErrors].map(([name, outcome, ...frames]) => {
    return { name, outcome, frames, seen: [] }
  }),
  ...passed.map(([name, seen, ...frames]) => ({ name, outcome: '200', frames, seen: [seen] })),
]
