/**
 * Bytes of the messages between regions: whole numbers of variable length, digests and stamps. A
 * reader checks every number against its maximum, and names the field that is wrong.
 */

import { invalid } from '../../errors.ts'

const START_BYTES = 64

/** Characters of a digest by their six bits: https://www.rfc-editor.org/rfc/rfc4648#section-5 */
const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

/** A digest has 12 characters of six bits, which are 9 bytes. */
export const DIGEST_CHARACTERS = 12

const STAMP_BYTES = 8

const HEX_DIGITS = '0123456789abcdef'

export class ByteWriter {
  #bytes = new Uint8Array(START_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  byte(value: number): void {
    if (this.#length === this.#bytes.length) this.#grow()
    this.#bytes[this.#length++] = value
  }

  /** A whole number from 0 to 2^53 - 1, with seven bits in each byte, the lowest first. */
  whole(value: number): void {
    let rest = value
    while (rest >= 128) {
      this.byte((rest % 128) + 128)
      rest = Math.floor(rest / 128)
    }
    this.byte(rest)
  }

  digest(text: string): void {
    for (let at = 0; at < DIGEST_CHARACTERS; at += 4) {
      let bits = 0
      for (const character of text.slice(at, at + 4)) {
        bits = bits * 64 + CHARACTERS.indexOf(character)
      }
      this.byte(bits >>> 16)
      this.byte((bits >>> 8) & 255)
      this.byte(bits & 255)
    }
  }

  /** A stamp as `stampText` writes it. */
  stamp(text: string): void {
    for (let at = 0; at < 2 * STAMP_BYTES; at += 2) {
      this.byte(hexDigit(text, at) * 16 + hexDigit(text, at + 1))
    }
  }

  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length)
  }

  #grow(): void {
    const larger = new Uint8Array(this.#bytes.length * 2)
    larger.set(this.#bytes)
    this.#bytes = larger
  }
}

export class ByteReader {
  readonly #bytes: Uint8Array
  readonly #name: string
  #at = 0

  constructor(bytes: Uint8Array, name: string) {
    this.#bytes = bytes
    this.#name = name
  }

  byte(field: string): number {
    const value = this.#bytes[this.#at]
    if (value === undefined) throw this.#refusal(field, 'nothing', 'a byte')
    this.#at++
    return value
  }

  whole(field: string, most: number): number {
    let value = 0
    for (let factor = 1; factor <= 2 ** 49; factor *= 128) {
      const byte = this.byte(field)
      value += (byte % 128) * factor
      if (byte >= 128) continue
      // A last byte of 0 would be a second spelling of a shorter number.
      if (value > most || (byte === 0 && factor > 1)) break
      return value
    }
    throw this.#refusal(field, value, `a whole number from 0 to ${most}`)
  }

  /** A byte that is one of the values. */
  among(field: string, values: readonly number[]): number {
    const value = this.byte(field)
    if (!values.includes(value)) throw this.#refusal(field, value, values.join(' or '))
    return value
  }

  digest(field: string): string {
    let text = ''
    for (let at = 0; at < DIGEST_CHARACTERS; at += 4) {
      const bits = this.byte(field) * 65_536 + this.byte(field) * 256 + this.byte(field)
      for (const shift of [18, 12, 6, 0]) text += CHARACTERS[(bits >>> shift) & 63]
    }
    return text
  }

  stamp(field: string): string {
    let text = ''
    for (let at = 0; at < STAMP_BYTES; at++) {
      const byte = this.byte(field)
      text += HEX_DIGITS.charAt(byte >> 4) + HEX_DIGITS.charAt(byte & 15)
    }
    return text
  }

  end(): void {
    const left = this.#bytes.length - this.#at
    if (left > 0) throw this.#refusal('end', `${left} bytes more`, 'the end of the message')
  }

  #refusal(field: string, value: unknown, allowed: string): Error {
    const path = `${this.#name}.${field}`
    return invalid('invalid-option', { path: `${path} at byte ${this.#at}`, value, allowed })
  }
}

/** The value of a digit that `stampText` has written. */
function hexDigit(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code < 58 ? code - 48 : code - 87
}
