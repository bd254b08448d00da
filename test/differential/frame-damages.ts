/** Damages to the fields and frames of an HTTP/2 request. */

import { flags, frameTypes } from '../../packages/server/src/rls/transport/http2/frames.ts'
import type { Random } from '../e2e/rls/random.ts'

export type Field = readonly [name: string, value: string]

export interface SentFrame {
  readonly type: number
  readonly flag: number
  readonly id: number
  readonly payload: Buffer
}

/** Fields that are added to valid ones. https://www.rfc-editor.org/rfc/rfc9113#section-8 */
const oddFields: readonly Field[] = [
  ...([
    ['X-A', 'b'],
    ['', 'b'],
    ['x a', 'b'],
    ['x\0', 'b'],
    ['x:y', 'z'],
    ['x\xe9', 'b'],
  ] as const),
  ...([
    ['x-a', 'b\r\nc: d'],
    ['x-a', 'b\nc'],
    ['x-a', 'b\0'],
    ['x-a', ' b'],
    ['x-a', 'b\t'],
  ] as const),
  ...([
    ['x-a', '\x7f'],
    ['x-a', '\x01'],
    ['x(y', 'z'],
    ['x-a\r\n', 'b'],
    ['__proto__', 'x'],
  ] as const),
  ...([
    ['connection', 'close'],
    ['connection', 'x-a'],
    ['keep-alive', '5'],
  ] as const),
  ...([
    ['proxy-connection', 'close'],
    ['upgrade', 'h2c'],
    ['transfer-encoding', 'chunked'],
  ] as const),
  ...([
    ['te', 'gzip'],
    ['te', 'trailers, gzip'],
    ['te', ''],
    ['expect', '100-continue'],
  ] as const),
  ...([
    ['expect', 'x'],
    ['host', 'a.example'],
    ['host', 'b.example'],
    ['host', ''],
  ] as const),
  ...([
    ['content-length', '5'],
    ['content-length', '0'],
    ['content-length', '+5'],
  ] as const),
  ...([
    ['content-length', '5, 5'],
    ['content-length', ''],
    ['content-length', '99'],
  ] as const),
  ...([
    ['content_length', '5'],
    ['http2-settings', 'AAMAAABk'],
    ['x-a', 'y'.repeat(20_000)],
  ] as const),
  ...([
    [':method', 'POST'],
    [':path', '/smuggled'],
    [':authority', 'b.example'],
  ] as const),
  ...([
    [':scheme', 'http'],
    [':status', '200'],
    [':protocol', 'websocket'],
    [':x', 'y'],
  ] as const),
  ...([
    [':', 'x'],
    [':Path', '/x'],
  ] as const),
]

const oddValues: Readonly<Record<string, readonly string[]>> = {
  ':method': [
    ...['', 'get', 'GET ', 'GE T', 'CONNECT', 'TRACE', 'OPTIONS', 'PRI', 'FOO', 'G\r\nT', 'QUERY'],
    ...['PATCH', 'X'.repeat(100), 'GET\0', 'POST', 'PUT'],
  ],
  ':path': [
    ...['', '*', 'a', '/a b', '/a\tb', '/a\r\nb', '/\0', '/\xe9', '/a#b', '/a\\b', '/%2f', '/%00'],
    ...[
      '/../a',
      '//a',
      '/./a',
      '/a/..',
      '/%',
      'http://a.example/a',
      'https://b.example/a',
      '/?',
      '?a',
    ],
    ...['/%61', '/a;b', '/..;/a', '/a HTTP/1.1', '/a%20b', `/${'a'.repeat(9_000)}`],
  ],
  ':scheme': ['', 'http', 'HTTPS', 'ftp', 'https\r\nx: y', 'http://a/', '1'],
  ':authority': [
    ...['', 'b.example', 'A.EXAMPLE', 'a.example:443', 'a.example:80', 'u@a.example', 'a b', 'a/b'],
    ...['a,b', '[::1]', '[::1', 'a\r\nx: y', '\xe9', 'a?b', 'a#b', 'a:b', 'a:99999', '.', 'a..b'],
  ],
}

export function damagedFields(random: Random, given: Field[], notes: string[]): Field[] {
  let fields = given
  for (let left = 1 + random.below(2); left > 0; left -= 1)
    fields = damagedOnce(random, fields, notes)
  return fields
}

function damagedOnce(random: Random, fields: Field[], notes: string[]): Field[] {
  const at = random.below(fields.length)
  const [name, value] = fields[at] as Field
  switch (random.below(5)) {
    case 0: {
      notes.push(`without ${name}`)
      return fields.toSpliced(at, 1)
    }
    case 1: {
      const to = random.below(fields.length)
      notes.push(`${name} at ${to}`)
      return fields.toSpliced(at, 1).toSpliced(to, 0, [name, value])
    }
    case 2: {
      const odd = Object.hasOwn(oddValues, name) ? oddValues[name] : undefined
      const other = odd === undefined ? `${value}, ${value}` : random.pick(odd)
      notes.push(`${name} of ${other.slice(0, 40)}`)
      return fields.toSpliced(at, 1, [name, other])
    }
    default: {
      const odd = random.pick(oddFields)
      notes.push(`with ${odd[0]}: ${odd[1].slice(0, 40)}`)
      return fields.toSpliced(random.below(3) === 0 ? at : fields.length, 0, odd)
    }
  }
}

/** Frames that are invalid in nearly every position. */
function oddFrame(random: Random, id: number): SentFrame {
  const on = (type: number, on: number, payload: Buffer, flag = 0) => ({
    type,
    flag,
    id: on,
    payload,
  })
  const text = Buffer.from('hello')
  const word = (value: number) => Buffer.from([value >>> 24, value >>> 16, value >>> 8, value])
  return random.pick([
    on(frameTypes.data, 0, text),
    on(frameTypes.data, id, text),
    on(frameTypes.data, 99, text),
    on(frameTypes.data, 2, text),
    on(frameTypes.headers, 0, text, flags.endHeaders),
    on(frameTypes.headers, 2, text, flags.endHeaders | flags.endStream),
    on(frameTypes.continuation, id, text, flags.endHeaders),
    on(frameTypes.priority, id, text),
    on(frameTypes.priority, id, Buffer.concat([word(id), Buffer.from([1])])),
    on(frameTypes.reset, id, word(8)),
    on(frameTypes.reset, 99, word(8)),
    on(frameTypes.reset, 0, word(8)),
    on(frameTypes.settings, 1, Buffer.alloc(0)),
    on(frameTypes.settings, 0, Buffer.from([0, 4, 255, 255, 255, 255])),
    on(frameTypes.settings, 0, Buffer.from([0, 5, 0, 0, 0, 1])),
    on(frameTypes.settings, 0, Buffer.from([0, 2, 0, 0, 0, 9])),
    on(frameTypes.settings, 0, text),
    on(frameTypes.settings, 0, text, flags.ack),
    on(frameTypes.pushPromise, id, Buffer.concat([word(2), text]), flags.endHeaders),
    on(frameTypes.ping, 0, text),
    on(frameTypes.ping, 1, Buffer.alloc(8)),
    on(frameTypes.goAway, 0, Buffer.alloc(8)),
    on(frameTypes.goAway, 0, text),
    on(frameTypes.windowUpdate, id, word(0)),
    on(frameTypes.windowUpdate, 0, word(0)),
    on(frameTypes.windowUpdate, 0, word(2 ** 31 - 1)),
    on(frameTypes.windowUpdate, id, word(2 ** 31 - 1)),
    on(frameTypes.windowUpdate, 99, word(1)),
    on(frameTypes.data, id, Buffer.alloc(16_385)),
    on(frameTypes.data, id, Buffer.from([200, 1]), flags.padded),
  ])
}

export function damagedFrames(random: Random, frames: SentFrame[], notes: string[]): SentFrame[] {
  const at = random.below(frames.length)
  const one = frames[at] as SentFrame
  const note = (text: string) => notes.push(`${text} at ${at}, type ${one.type}`)
  switch (random.below(8)) {
    case 0:
      note('drop')
      return frames.toSpliced(at, 1)
    case 1:
      note('repeat')
      return frames.toSpliced(at, 0, one)
    case 2: {
      const flag = one.flag ^ random.pick([1, 4, 8, 0x20])
      note(`flag ${one.flag} to ${flag}`)
      return frames.toSpliced(at, 1, { ...one, flag })
    }
    case 3: {
      const id = random.pick([0, 1, 2, 3, 5, 7, 99])
      note(`stream ${one.id} to ${id}`)
      return frames.toSpliced(at, 1, { ...one, id })
    }
    case 4: {
      const payload = Buffer.from(one.payload)
      if (payload.length > 0) payload[random.below(payload.length)] = random.below(256)
      note('byte')
      return frames.toSpliced(at, 1, { ...one, payload })
    }
    case 5: {
      const payload = one.payload.subarray(0, random.below(one.payload.length + 1))
      note(`cut to ${payload.length}`)
      return frames.toSpliced(at, 1, { ...one, payload })
    }
    default: {
      const odd = oddFrame(random, one.id)
      note(`with type ${odd.type}, flag ${odd.flag}, stream ${odd.id}, ${odd.payload.length} bytes`)
      return frames.toSpliced(at + random.below(2), 0, odd)
    }
  }
}
