import { describe, expect, test } from 'vitest'
import { HpackDecoder } from './hpack-decoder.ts'
import { HpackError } from './hpack-error.ts'

function decoded(decoder: HpackDecoder, hex: string): string[] {
  const fields: string[] = []
  decoder.decode(Buffer.from(hex.replaceAll(' ', ''), 'hex'), (name, value) => {
    fields.push(`${name}: ${value}`)
  })
  return fields
}

const first = [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com']
const third = [
  ':method: GET',
  ':scheme: https',
  ':path: /index.html',
  ':authority: www.example.com',
  'custom-key: custom-value',
]

describe('a decoder reads the examples of RFC 7541', () => {
  test('C.3, three requests without Huffman codes, each with the table of the one before', () => {
    const decoder = new HpackDecoder()
    expect(decoded(decoder, '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d')).toEqual(first)
    const second = [...first, 'cache-control: no-cache']
    expect(decoded(decoder, '8286 84be 5808 6e6f 2d63 6163 6865')).toEqual(second)
    const block = '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65'
    expect(decoded(decoder, block)).toEqual(third)
  })

  test('C.4, three requests with Huffman codes', () => {
    const decoder = new HpackDecoder()
    expect(decoded(decoder, '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff')).toEqual(first)
    const second = [...first, 'cache-control: no-cache']
    expect(decoded(decoder, '8286 84be 5886 a8eb 1064 9cbf')).toEqual(second)
    const block = '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf'
    expect(decoded(decoder, block)).toEqual(third)
  })

  test('C.6.1, a response with Huffman codes and a table of 256 bytes', () => {
    const block =
      '3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 ' +
      '2005 9504 0b81 66e0 82a6 2d1b' +
      'ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3'
    expect(decoded(new HpackDecoder(), block)).toEqual([
      ':status: 302',
      'cache-control: private',
      'date: Mon, 21 Oct 2013 20:13:21 GMT',
      'location: https://www.example.com',
    ])
  })
})

describe('a decoder', () => {
  test('evicts the oldest fields of a full table', () => {
    const decoder = new HpackDecoder()
    decoded(decoder, '3f1d 4001 61 0162 4001 63 0164')
    // The table has 60 bytes, and one field of 34.
    expect(decoded(decoder, 'be')).toEqual(['c: d'])
    expect(() => decoded(decoder, 'bf')).toThrow(HpackError)
  })

  test('changes its version with the table, and only then', () => {
    const decoder = new HpackDecoder()
    decoded(decoder, '4001 61 0162')
    const { version } = decoder
    decoded(decoder, 'be82 0001 78 0179')
    expect(decoder.version).toBe(version)
    decoded(decoder, '20')
    expect(decoder.version).not.toBe(version)
  })

  test.each([
    ['index 0', '80'],
    ['an index that is not in the table', 'be'],
    ['a string that ends too early', '0005 6162'],
    ['an integer without an end', 'ff ffff ffff ffff'],
    ['a table that is larger than allowed', '3fe2 3f'],
    ['a table size update after a field', '82 20'],
    ['padding with zeros', '0001 61 81 00'],
    ['padding of a whole byte', '0001 61 82 1f ff'],
    ['the end of string within a string', '0001 61 84 ffff ffff'],
  ])('refuses %s', (_, hex) => {
    expect(() => decoded(new HpackDecoder(), hex)).toThrow(HpackError)
  })
})
