import { describe, expect, test } from 'vitest'
import { ChunkedReader } from './chunked-reader.ts'

const errors = {
  invalid: (message: string) => new Error(message),
  tooLarge: (message: string) => new Error(message),
}

/** Returns the bytes that were handed on for each piece. */
function readAll(pieces: readonly string[]) {
  const handed: string[] = []
  const reader = new ChunkedReader((bytes) => void handed.push(bytes.toString('latin1')), errors)
  const ends = pieces.map((piece) => reader.read(Buffer.from(piece, 'latin1'), 0))
  return { handed, ends, isDone: reader.isDone }
}

describe('chunks', () => {
  test('of one byte in one piece are handed on together', () => {
    const letters = Array.from({ length: 10_000 }, (_, at) => String.fromCharCode(97 + (at % 26)))
    const text = `${letters.map((letter) => `1\r\n${letter}\r\n`).join('')}0\r\n\r\nnext`
    const { handed, ends, isDone } = readAll([text])
    expect(handed).toEqual([letters.join('')])
    expect(ends).toEqual([text.length - 'next'.length])
    expect(isDone).toBe(true)
  })

  test('are the same however they are cut', () => {
    const long = 'y'.repeat(300)
    const chunks = [
      '1\r\na\r\n',
      '12C\r\n',
      long,
      '\r\n00000003;x=1\r\nbcd\r\n',
      '0\r\nA: b\r\n\r\n',
    ]
    const text = chunks.join('')
    for (let cut = 1; cut < text.length; cut += 1) {
      const { handed, isDone } = readAll([text.slice(0, cut), text.slice(cut)])
      expect(handed.join('')).toBe(`a${long}bcd`)
      expect(handed.length).toBeLessThanOrEqual(2)
      expect(isDone).toBe(true)
    }
    expect(readAll([...text]).handed.join('')).toBe(`a${long}bcd`)
  })

  test.each(['\r\n', 'g\r\n', '1\n', '1 \r\n', '-1\r\n', '0x1\r\n', '1\r\nab\r\n', '1\r\na\n'])(
    'that are not valid throw: %j',
    (text) => {
      expect(() => readAll([`2\r\nab\r\n${text}`])).toThrow()
      expect(() => readAll(['2\r\nab\r\n', ...text])).toThrow()
    },
  )
})
