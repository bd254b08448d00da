import { fixedWindow, tokenBucket } from 'tidegate'
import type { SharedMessage } from 'tidegate/regions'
import { describe, expect, test } from 'vitest'
import { ByteWriter, MessageError } from '../link/bytes.ts'
import { writeLimit } from '../peer/limit-bytes.ts'
import {
  decodeFrame,
  decodeReport,
  encodeFrame,
  encodeReport,
  groupBytes,
  groupId,
  readGroup,
} from './shared-frames.ts'

const month = fixedWindow({ limit: 300, per: 'month' })
const bucket = tokenBucket({ limit: 5, per: '1s', burst: 10 })

const message: SharedMessage = {
  isAnswer: true,
  exchange: 7,
  incarnation: '0190aabbccdd0001',
  rows: [
    {
      key: 'abcdefghijkl',
      cell: 1_790_000_000_000,
      entries: [
        {
          ...{ region: 1, incarnation: '0190aabbccdd0001', own: 12, stable: 4 },
          ...{ maskVersion: 3, mask: 7 },
        },
      ],
    },
  ],
}

describe('a frame of rows', () => {
  const frame = { name: 'quota', limit: month, storeMs: 1_790_000_000_123, message }

  test('is read as it was written', () => {
    expect(decodeFrame(encodeFrame(frame))).toEqual(frame)
  })

  test('that ends too early is refused, wherever it ends', () => {
    const bytes = encodeFrame(frame)
    for (let length = 0; length < bytes.length; length++) {
      expect(() => decodeFrame(bytes.subarray(0, length))).toThrow(MessageError)
    }
  })
})

describe('a report', () => {
  const groups = [
    { name: 'quota', limit: month, units: new Map([['abcdefghijkl', 3]]) },
    { name: 'calls', limit: bucket, units: new Map([['AAAAAAAAAA-_', 1_000_000]]) },
  ]

  test('is read as it was written', () => {
    expect(decodeReport(encodeReport(groups))).toEqual(groups)
  })

  test('with too many keys is refused', () => {
    const writer = new ByteWriter().whole(1).text('quota')
    writeLimit(writer, month)
    expect(() => decodeReport(writer.whole(4_097).finish())).toThrow('keys: 4097 is more than 4096')
  })
})

test('a limit with other numbers has another id, and is read as it was written', () => {
  expect(groupId('quota', month)).not.toBe(groupId('quota', bucket))
  expect(groupId('quota', month)).not.toBe(groupId('other', month))
  expect(readGroup(groupBytes('quota', bucket))).toEqual({ name: 'quota', limit: bucket })
})
