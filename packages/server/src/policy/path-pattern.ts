/**
 * Patterns of paths: segments, where `*` stands for exactly one and `**` for any number, none
 * included. There are no regular expressions and there is no backtracking: a path is read once, and
 * each pattern takes a fixed number of steps per segment, whatever the path. All places of a
 * pattern that the segments so far can have led to are the bits of one number.
 *
 * What an upstream may take for the same path falls under the same rule: empty segments count as
 * not there (`/a`, `/a/`, `//a`), and characters that need no encoding in a segment are the same
 * encoded (`/a:b`, `/a%3Ab`). Parameters of a segment count as not there either (`/a;x=y`): many
 * servers cut them off.
 */

import { endianness } from 'node:os'
import { z } from 'zod'

export type PathMatcher = (path: string) => boolean

/** One bit for each element of a pattern and one for its end, in a number of 31 bits. */
const ELEMENTS_MAX = 30

const PATTERN_LENGTH_MAX = 1_024

const allowed =
  'a path such as /v1/users, /v1/*/items (* is one segment) or /v1/** (** is any number), ' +
  `with at most ${ELEMENTS_MAX} segments, percent-encoded as in a URL, without ";"`

export const pathPattern = z
  .string()
  .refine(isPattern, { error: allowed })
  .meta({
    examples: ['/v1/users', '/v1/*/items', '/v1/**'],
  })

export function compilePattern(pattern: string): PathMatcher {
  const patterns = new PathPatterns([pattern])
  return (path) => {
    patterns.read(path)
    return patterns.matches(0)
  }
}

/** A pattern ready to be followed: bit n of a state says that n elements have been gone through. */
interface Steps {
  /** By the number of a segment's text: at which elements it leads on. */
  readonly onward: Int32Array
  /** Elements at which every segment leads back to the same place: those that are `**`. */
  readonly staying: number
  readonly start: number
  /** The end of the pattern. */
  readonly end: number
  /** A `**` at the end of the pattern: whatever follows, it matches. */
  readonly open: number
}

/** The number of all texts that stand in no pattern. */
const OTHER = 0

const SLASH = 0x2f
const PERCENT = 0x25
const SEMICOLON = 0x3b

/** Nearly all paths are shorter; the rest of a long one is read only if a pattern asks for it. */
const SEGMENTS_AT_FIRST = 32

/** Many patterns over one path, which is read once: `read` it, then ask for each pattern. */
export class PathPatterns {
  readonly #steps: readonly Steps[]
  readonly #texts: SegmentTexts
  readonly #path = new PathCodes()
  /** Where the next segment begins; beyond the path where all are read. */
  #at = 0
  /** The numbers of the texts of the segments that were read. */
  #segments: Int32Array = new Int32Array(SEGMENTS_AT_FIRST)
  #count = 0

  constructor(patterns: readonly string[]) {
    const elements = patterns.map(elementsOf)
    const texts = elements.flat().filter((element) => element !== '*' && element !== '**')
    this.#texts = new SegmentTexts([...new Set(texts)])
    this.#steps = elements.map((list) => stepsOf(list, this.#texts.all))
  }

  read(path: string): void {
    this.#path.set(path)
    this.#at = 0
    this.#count = 0
    this.#readMore(SEGMENTS_AT_FIRST)
  }

  /** Whether the path that was read matches the pattern at that place. */
  matches(index: number): boolean {
    const { onward, staying, start, end, open } = this.#steps[index] as Steps
    let segments = this.#segments
    let count = this.#count
    let state = start
    for (let at = 0; ; at++) {
      if ((state & open) !== 0) return true
      if (at === count) {
        segments = this.#readRest()
        count = this.#count
        if (at === count) return (state & end) !== 0
      }
      const text = segments[at] as number
      state = ((state & (onward[text] as number)) << 1) | (state & staying)
      state |= (state & staying) << 1
      if (state === 0) return false
    }
  }

  #readRest(): Int32Array {
    if (this.#at >= this.#path.length) return this.#segments
    // A segment takes at least a character and a slash.
    const countMax = this.#count + Math.ceil((this.#path.length - this.#at) / 2)
    if (countMax > this.#segments.length) {
      const longer = new Int32Array(countMax)
      longer.set(this.#segments)
      this.#segments = longer
    }
    this.#readMore(countMax)
    return this.#segments
  }

  #readMore(countMax: number): void {
    const { codes, length } = this.#path
    const segments = this.#segments
    const texts = this.#texts
    let count = this.#count
    let start = this.#at
    while (start < length && count < countMax) {
      let hash = 0
      let end = start
      for (; end < length; end++) {
        const code = codes[end] as number
        if (code === SLASH || code === SEMICOLON) break
        hash = nextHash(hash, code)
      }
      if (end > start) segments[count++] = texts.numberOf(codes, start, end, hash)
      while (end < length && codes[end] !== SLASH) end++
      start = end + 1
    }
    this.#count = count
    this.#at = start
  }
}

/** Below this, copying one by one is faster than a call to do it. */
const COPIED_LENGTH_MIN = 64

const isLittleEndian = endianness() === 'LE'

/** The characters of a path as numbers, which are read several times as fast as those of a text. */
class PathCodes {
  codes = new Uint16Array(0)
  length = 0
  #bytes = Buffer.alloc(0)

  set(path: string): void {
    if (path.length > this.codes.length) {
      this.#bytes = Buffer.alloc(Math.max(path.length, 256) * 2)
      this.codes = new Uint16Array(this.#bytes.buffer, this.#bytes.byteOffset, path.length)
    }
    this.length = path.length
    if (isLittleEndian && path.length >= COPIED_LENGTH_MIN) this.#bytes.write(path, 'utf16le')
    else for (let at = 0; at < path.length; at++) this.codes[at] = path.charCodeAt(at)
    if (path.includes('%')) this.#decode()
  }

  /** Decodes what would not have to be encoded; never a slash, so that segments stay. */
  #decode(): void {
    const { codes, length } = this
    let to = 0
    for (let at = 0; at < length; at++) {
      const code = codes[at] as number
      const plain = code === PERCENT ? needlesslyEncoded(codes, at, length) : 0
      codes[to++] = plain === 0 ? code : plain
      if (plain !== 0) at += 2
    }
    this.length = to
  }
}

/** By its code, whether a character besides the unreserved ones may stand in a segment as it is. */
const isPlain = Array.from({ length: 128 }, (_, code) =>
  /[!$&'()*+,;=:@]/.test(String.fromCharCode(code)),
)

function needlesslyEncoded(codes: Uint16Array, at: number, length: number): number {
  if (at + 2 >= length) return 0
  const code = digitOf(codes[at + 1] as number) * 16 + digitOf(codes[at + 2] as number)
  return isPlain[code] === true ? code : 0
}

/** The value of a hexadecimal digit; of anything else, a number that makes no character. */
function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : 1_000
}

/**
 * The texts in patterns, to find a segment among them without cutting it out of its path. There are
 * as many as patterns have; a client's choice of segments cannot add any.
 */
class SegmentTexts {
  /** At the number of each text; the first stands for all others. */
  readonly all: readonly string[]
  /** The characters of all of them, and where each begins. */
  readonly #codes: Uint16Array
  readonly #offsets: Int32Array
  readonly #hashes: Int32Array
  /** By the end of a hash: the first text that has it, and at each text the next one. */
  readonly #first: Int32Array
  readonly #next: Int32Array
  readonly #mask: number

  constructor(texts: readonly string[]) {
    this.all = ['', ...texts]
    this.#codes = codesOf(this.all.join(''))
    this.#offsets = new Int32Array(this.all.length + 1)
    this.#hashes = Int32Array.from(this.all, (text) => codesOf(text).reduce(nextHash, 0))
    for (const [at, text] of this.all.entries()) {
      this.#offsets[at + 1] = (this.#offsets[at] as number) + text.length
    }
    this.#mask = 2 ** Math.ceil(Math.log2(this.all.length * 4)) - 1
    this.#first = new Int32Array(this.#mask + 1)
    this.#next = new Int32Array(this.all.length)
    for (let number = 1; number < this.all.length; number++) {
      const bucket = (this.#hashes[number] as number) & this.#mask
      this.#next[number] = this.#first[bucket] as number
      this.#first[bucket] = number
    }
  }

  numberOf(path: Uint16Array, start: number, end: number, hash: number): number {
    const hashes = this.#hashes
    let number = this.#first[hash & this.#mask] as number
    while (number !== OTHER) {
      if (hashes[number] === hash && this.#isSame(path, start, end, number)) return number
      number = this.#next[number] as number
    }
    return OTHER
  }

  #isSame(path: Uint16Array, start: number, end: number, number: number): boolean {
    const codes = this.#codes
    const offset = this.#offsets[number] as number
    if ((this.#offsets[number + 1] as number) - offset !== end - start) return false
    const shift = offset - start
    for (let at = start; at < end; at++) if (path[at] !== codes[at + shift]) return false
    return true
  }
}

function codesOf(text: string): Uint16Array {
  return Uint16Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
}

function nextHash(hash: number, code: number): number {
  return (Math.imul(hash, 31) + code) | 0
}

/** Several `**` in a row are one, so that going past one of them is a single step. */
function elementsOf(pattern: string): string[] {
  const elements = pattern.split('/').filter((element) => element !== '')
  return elements.filter((element, at) => element !== '**' || elements[at - 1] !== '**')
}

function stepsOf(elements: readonly string[], texts: readonly string[]): Steps {
  const bits = (is: (element: string) => boolean) =>
    elements.reduce((sum, element, at) => (is(element) ? sum | (1 << at) : sum), 0)
  const single = bits((element) => element === '*')
  const staying = bits((element) => element === '**')
  return {
    onward: Int32Array.from(texts, (text) => single | bits((element) => element === text)),
    staying,
    start: 1 | ((1 & staying) << 1),
    end: 1 << elements.length,
    open: elements.at(-1) === '**' ? 1 << (elements.length - 1) : 0,
  }
}

/**
 * `pchar` of https://www.rfc-editor.org/rfc/rfc3986#section-3.3, in its one canonical spelling, and
 * without the semicolon, before which a segment ends here.
 */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()+,=:@-]|%[0-9A-F]{2})+$/

const NEEDLESS = /[A-Za-z0-9._~!$&'()*+,;=:@-]/

function isPattern(text: string): boolean {
  if (text.length > PATTERN_LENGTH_MAX || !text.startsWith('/')) return false
  if (text === '/') return true
  const elements = text.slice(1).split('/')
  return elements.length <= ELEMENTS_MAX && elements.every(isElement)
}

function isElement(element: string): boolean {
  if (element === '*' || element === '**') return true
  if (element === '.' || element === '..' || !SEGMENT.test(element)) return false
  // What needs no encoding is written without: encoded, it would match nothing.
  const codes = Array.from(element.matchAll(/%(..)/g), ([, hex]) => Number.parseInt(`${hex}`, 16))
  return codes.every((code) => !NEEDLESS.test(String.fromCharCode(code)))
}
