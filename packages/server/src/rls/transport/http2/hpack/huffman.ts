/**
 * Huffman decoding of HPACK strings, https://www.rfc-editor.org/rfc/rfc7541#appendix-B.
 *
 * The code is canonical: the lengths of its codes define it. They are compiled once into a state
 * machine, which reads four bits per step and emits at most one byte.
 */

import { HpackError } from './hpack-error.ts'

/** The code length of each byte, then of the end of string, as a letter: A is 5 bits, B is 6. */
const LENGTHS =
  'ISXXXXXXXTZXXZXXXXXXXXZXXXXXXXXXBFFHIBDGFFDGDBBBAAABBBBBBBCDKBHFIBCCCCCCCCCCCCCCCCCCCCCCDCDIOI' +
  'JBKABABABBBACCBBBABCBAABCCCCCKGJIXPRPPRRRSRSSSSSTSTTRSTSSSSQRSRSSTRQPRRSSQSRRTQRSSQQRQSRSSPRRR' +
  'SRRSVVPORSRUVVVWWVTUOQVWWVWTQQVVXWWWPTPQRQQSRRUUTTVSVWVVWWWWWXWWWWWVZ'

const END_OF_STRING = 256
const CODE_BITS_MIN = 5

/** The parts of a step: the next state in the lowest byte, the emitted byte above it, two flags. */
const STATE_MASK = 0xff
const EMITS = 0x1_0000
const FAILS = 0x2_0000

const { steps, canEnd } = machine()

/** Decodes `bytes` from `start` to `end` into `target`, and returns the decoded length. */
export function huffmanDecode(
  bytes: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
): number {
  let state = 0
  let length = 0
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    const high = steps[(state << 4) | (byte >> 4)] as number
    if (high >= EMITS) {
      if (high >= FAILS) throw new HpackError('invalid Huffman code')
      target[length++] = (high >> 8) & 0xff
    }
    const low = steps[((high & STATE_MASK) << 4) | (byte & 15)] as number
    if (low >= EMITS) {
      if (low >= FAILS) throw new HpackError('invalid Huffman code')
      target[length++] = (low >> 8) & 0xff
    }
    state = low & STATE_MASK
  }
  if (canEnd[state] !== 1) throw new HpackError('invalid padding after a Huffman code')
  return length
}

type Node = { children: [Node | undefined, Node | undefined]; symbol: number; id: number }

function machine() {
  const { root, inner } = tree()
  const table = new Int32Array(inner.length * 16)
  for (const node of inner) {
    for (let nibble = 0; nibble < 16; nibble++)
      table[node.id * 16 + nibble] = step(root, node, nibble)
  }
  // Padding is at most 7 bits of the code for the end of string, which is all ones.
  const ends = new Uint8Array(inner.length)
  for (let node: Node | undefined = root, bits = 0; node !== undefined && bits < 8; bits++) {
    ends[node.id] = 1
    node = node.children[1]
  }
  return { steps: table, canEnd: ends }
}

function step(root: Node, from: Node, nibble: number): number {
  let node = from
  let emitted = 0
  for (let bit = 3; bit >= 0; bit--) {
    const next = node.children[((nibble >> bit) & 1) as 0 | 1]
    if (next === undefined || next.symbol === END_OF_STRING) return FAILS
    node = next
    if (next.symbol >= 0) {
      emitted = EMITS | (next.symbol << 8)
      node = root
    }
  }
  return emitted | node.id
}

/** Codes of equal length are consecutive numbers, in the order of their symbols. */
function tree(): { root: Node; inner: Node[] } {
  const root: Node = { children: [undefined, undefined], symbol: -1, id: 0 }
  const inner = [root]
  const symbols = Array.from(LENGTHS, (letter, symbol) => ({
    symbol,
    length: letter.charCodeAt(0) - 'A'.charCodeAt(0) + CODE_BITS_MIN,
  })).sort((one, other) => one.length - other.length || one.symbol - other.symbol)
  let code = -1
  let before = CODE_BITS_MIN
  for (const { symbol, length } of symbols) {
    code = (code + 1) * 2 ** (length - before)
    before = length
    let node = root
    for (let bit = length - 1; bit >= 0; bit--) {
      const side = (Math.floor(code / 2 ** bit) % 2) as 0 | 1
      let next = node.children[side]
      if (next === undefined) {
        next = { children: [undefined, undefined], symbol: bit === 0 ? symbol : -1, id: 0 }
        if (bit > 0) next.id = inner.push(next) - 1
        node.children[side] = next
      }
      node = next
    }
  }
  return { root, inner }
}
