/**
 * Sequences of HTTP/2 frames for comparing servers: requests on a few streams, interleaved, with
 * valid frames in between, and damaged in some way. The same seed makes the same sequences. Each
 * ends with a request on a later stream.
 */

import {
  flags,
  frame,
  frameTypes,
  PREFACE,
} from '../../packages/server/src/rls/transport/http2/frames.ts'
import { type Random, seededRandom } from '../e2e/rls/random.ts'
import { block } from '../security/frame-client.ts'
import { damagedFields, damagedFrames, type Field, type SentFrame } from './frame-damages.ts'

/** A stream id higher than all others. */
export const LAST_STREAM = 1_001

export interface FrameSequence {
  readonly bytes: Buffer
  /** The damages; empty if it is valid. */
  readonly notes: readonly string[]
  readonly hasTrailers: boolean
}

const plainFields: readonly Field[] = [
  ...([
    ['x-a', 'b'],
    ['x-empty', ''],
    ['x-text', '\xfcber'],
    ['cookie', 'a=b'],
  ] as const),
  ...([
    ['cookie', 'c=d'],
    ['te', 'trailers'],
    ['accept', '*/*'],
    ['user-agent', 'test'],
  ] as const),
  ...([
    ['priority', 'u=1, i'],
    ['x-long', 'y'.repeat(200)],
  ] as const),
]

const bodies = ['', 'a', 'hello', 'GET /smuggled HTTP/1.1\r\n\r\n', '0\r\n\r\n', 'x'.repeat(300)]

export function* frameSequences(seed: number): Generator<FrameSequence> {
  const random = seededRandom(seed)
  for (;;) yield sequence(random)
}

function sequence(random: Random): FrameSequence {
  const notes: string[] = []
  const isDamaged = random.below(4) > 0
  const count = 1 + random.below(3)
  const damagedAt = isDamaged && random.below(3) > 0 ? random.below(count) : -1
  const streams = Array.from({ length: count }, (_, at) => {
    return request(random, 2 * at + 1, at === damagedAt ? notes : undefined)
  })
  let frames = interleaved(random, streams)
  for (let left = random.below(3); left > 0; left -= 1) {
    frames = insertedBetween(random, frames, control(random))
  }
  if (isDamaged && (damagedAt === -1 || random.below(3) === 0)) {
    frames = damagedFrames(random, frames, notes)
  }
  const last = block(pseudoFields('/last', 'GET'))
  frames.push({
    ...{ type: frameTypes.headers, flag: flags.endHeaders | flags.endStream },
    ...{ id: LAST_STREAM, payload: last },
  })
  const settings = frame(frameTypes.settings, 0, 0, Buffer.alloc(0))
  const sent = frames.map(({ type, flag, id, payload }) => frame(type, flag, id, payload))
  const heads = streams.flat().filter(({ type }) => type === frameTypes.headers)
  const bytes = Buffer.concat([PREFACE, settings, ...sent])
  return { bytes, notes, hasTrailers: heads.length > count }
}

function pseudoFields(path: string, method: string): Field[] {
  return [
    [':method', method],
    [':scheme', 'https'],
    [':authority', 'a.example'],
    [':path', path],
  ]
}

/** The frames of one stream; damages to its fields are added to `notes`. */
function request(random: Random, id: number, notes: string[] | undefined): SentFrame[] {
  const body = random.below(2) === 0 ? undefined : random.pick(bodies)
  const method = body === undefined ? random.pick(['GET', 'HEAD', 'DELETE']) : 'POST'
  const query = random.below(4) === 0 ? '?a=b' : ''
  let fields: Field[] = pseudoFields(`/f/${id}${query}`, method)
  for (let left = random.below(4); left > 0; left -= 1) fields.push(random.pick(plainFields))
  if (body !== undefined && random.below(2) === 0) {
    fields.push(['content-length', String(body.length)])
  }
  if (notes !== undefined) fields = damagedFields(random, fields, notes)
  const hasTrailers = body !== undefined && random.below(16) === 0
  return [
    ...headerFrames(random, id, fields, body === undefined),
    ...(body === undefined ? [] : dataFrames(random, id, body, !hasTrailers)),
    ...(hasTrailers ? headerFrames(random, id, [['x-sum', '1']], true) : []),
  ]
}

function headerFrames(random: Random, id: number, fields: Field[], isLast: boolean): SentFrame[] {
  const whole = block(fields)
  const end = isLast ? flags.endStream : 0
  if (random.below(4) > 0) {
    return [{ type: frameTypes.headers, flag: flags.endHeaders | end, id, payload: whole }]
  }
  const at = 1 + random.below(whole.length - 1)
  return [
    { type: frameTypes.headers, flag: end, id, payload: whole.subarray(0, at) },
    { type: frameTypes.continuation, flag: flags.endHeaders, id, payload: whole.subarray(at) },
  ]
}

function dataFrames(random: Random, id: number, body: string, isLast: boolean): SentFrame[] {
  const bytes = Buffer.from(body, 'latin1')
  const at = random.below(bytes.length + 1)
  const parts = random.below(2) === 0 ? [bytes] : [bytes.subarray(0, at), bytes.subarray(at)]
  return parts.map((part, place) => {
    const end = isLast && place === parts.length - 1 ? flags.endStream : 0
    if (random.below(4) > 0) return { type: frameTypes.data, flag: end, id, payload: part }
    const padding = random.below(20)
    const payload = Buffer.concat([Buffer.from([padding]), part, Buffer.alloc(padding)])
    return { type: frameTypes.data, flag: end | flags.padded, id, payload }
  })
}

/** Mixes streams, each in its order. A header block stays contiguous. Streams begin in order. */
function interleaved(random: Random, streams: readonly SentFrame[][]): SentFrame[] {
  const rest = streams.map((frames) => [...frames])
  const mixed: SentFrame[] = []
  let begun = 0
  while (rest.some((frames) => frames.length > 0)) {
    const at = Math.min(begun, random.below(rest.length))
    const taken = rest[at]?.shift()
    if (taken === undefined) {
      begun = Math.max(
        begun,
        rest.findIndex((frames) => frames.length > 0),
      )
      continue
    }
    begun = Math.max(begun, at + 1)
    mixed.push(taken)
    const next = rest[at]?.[0]
    if (next?.type === frameTypes.continuation) mixed.push(rest[at]?.shift() as SentFrame)
  }
  return mixed
}

/** Frames that may stand anywhere between others. */
function control(random: Random): SentFrame {
  const on = (type: number, id: number, payload: Buffer, flag = 0) => ({ type, flag, id, payload })
  const window = Buffer.from([0, 0, 4, 0])
  const PRIORITY_UPDATE = 0x10
  return random.pick([
    on(frameTypes.ping, 0, Buffer.alloc(8)),
    on(frameTypes.settings, 0, Buffer.alloc(0)),
    on(frameTypes.settings, 0, Buffer.from([0, 4, 0, 1, 0, 0])),
    on(frameTypes.settings, 0, Buffer.from([0, 1, 0, 0, 0, 0])),
    on(frameTypes.windowUpdate, 0, window),
    on(frameTypes.windowUpdate, 1, window),
    on(frameTypes.priority, 1, Buffer.from([0, 0, 0, 0, 7])),
    on(PRIORITY_UPDATE, 0, Buffer.from('\0\0\0\x01u=2', 'latin1')),
    on(0xbb, 0, Buffer.from('unknown')),
  ])
}

function insertedBetween(random: Random, frames: SentFrame[], one: SentFrame): SentFrame[] {
  // Before its head, a stream is idle.
  const first = one.id === 0 ? 0 : 1 + frames.findIndex(({ id }) => id === one.id)
  const places = frames.flatMap(({ type }, at) => {
    return at >= first && type !== frameTypes.continuation ? [at] : []
  })
  return frames.toSpliced(places.length === 0 ? frames.length : random.pick(places), 0, one)
}
