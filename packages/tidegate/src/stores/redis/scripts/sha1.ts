/**
 * SHA-1 as a synchronous function, for keys. Node.js, Bun and Deno have one of their own. Web
 * Crypto is asynchronous, so edge runtimes use `sha1InScript`. Keys need an even spread and a fixed
 * length, not resistance against collisions that an attacker constructs.
 */

import { builtinModule } from '../../../runtime.ts'

type RuntimeHash = (algorithm: string, data: Uint8Array | string, encoding: 'base64url') => string

/** The digest in base64url without padding. Text is read as UTF-8. */
export const sha1: (data: Uint8Array | string) => string = sha1OfRuntime() ?? sha1InScript

function sha1OfRuntime(): ((data: Uint8Array | string) => string) | undefined {
  const { hash } = (builtinModule('node:crypto') ?? {}) as { readonly hash?: RuntimeHash }
  return hash === undefined ? undefined : (data) => hash('sha1', data, 'base64url')
}

const BLOCK_BYTES = 64
const BLOCK_WORDS = BLOCK_BYTES / 4
const ROUNDS = 80

/** https://www.rfc-editor.org/rfc/rfc3174#section-6.1 */
export function sha1InScript(data: Uint8Array | string): string {
  const blocks = padded(typeof data === 'string' ? new TextEncoder().encode(data) : data)
  const state = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0])
  const words = new Int32Array(ROUNDS)
  for (let at = 0; at < blocks.byteLength; at += BLOCK_BYTES) {
    for (let word = 0; word < BLOCK_WORDS; word++) words[word] = blocks.getInt32(at + 4 * word)
    for (let round = BLOCK_WORDS; round < ROUNDS; round++) {
      const mixed = wordAt(words, round - 3) ^ wordAt(words, round - 8)
      words[round] = rotated(mixed ^ wordAt(words, round - 14) ^ wordAt(words, round - 16), 1)
    }
    addBlock(state, words)
  }
  return base64url(state)
}

/** A one bit, zeros up to a whole block, and the length in bits in the last eight bytes. */
function padded(bytes: Uint8Array): DataView {
  const blocks = Math.ceil((bytes.length + 9) / BLOCK_BYTES)
  const all = new Uint8Array(blocks * BLOCK_BYTES)
  all.set(bytes)
  all[bytes.length] = 0x80
  const view = new DataView(all.buffer)
  view.setBigUint64(all.length - 8, BigInt(bytes.length) * 8n)
  return view
}

function addBlock(state: Int32Array, words: Int32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0] = state
  for (let round = 0; round < ROUNDS; round++) {
    const next = (rotated(a, 5) + mix(round, b, c, d) + e + wordAt(words, round)) | 0
    e = d
    d = c
    c = rotated(b, 30)
    b = a
    a = next
  }
  for (const [at, added] of [a, b, c, d, e].entries()) state[at] = wordAt(state, at) + added
}

/** The function and the constant of a round: https://www.rfc-editor.org/rfc/rfc3174#section-5 */
function mix(round: number, b: number, c: number, d: number): number {
  if (round < 20) return ((b & c) | (~b & d)) + 0x5a827999
  if (round < 40) return (b ^ c ^ d) + 0x6ed9eba1
  if (round < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
  return (b ^ c ^ d) + 0xca62c1d6
}

function rotated(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}

function wordAt(words: Int32Array, at: number): number {
  return words[at] ?? 0
}

function base64url(state: Int32Array): string {
  const bytes = [...state].flatMap((word) => [word >>> 24, word >> 16, word >> 8, word])
  const text = btoa(String.fromCharCode(...bytes.map((byte) => byte & 0xff)))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
