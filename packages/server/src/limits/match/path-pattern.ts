/**
 * Patterns of paths: `*` matches exactly one segment, `**` any number, also zero. There are no
 * regular expressions and there is no backtracking: a path is read once, and each pattern takes a
 * fixed number of steps per segment. The positions in a pattern that the segments so far can have
 * reached are the bits of one number. Both ends of a long path are checked first, which is enough
 * if a pattern has a single `**`.
 *
 * Paths that an upstream may treat as equal match the same patterns. Empty segments are ignored
 * (`/a`, `/a/`, `//a`). Characters that need no encoding in a segment equal their encoded form
 * (`/a:b`, `/a%3Ab`). Parameters of a segment are ignored (`/a;x=y`), because many servers cut them
 * off.
 */

import { ABSENT, OTHER, PathCodes, SEMICOLON, SegmentTexts, SLASH } from './segment-texts.ts'

export type PathMatcher = (path: string) => boolean

/** One bit for each element of a pattern and one for its end, in a number of 31 bits. */
const ELEMENTS_MAX = 30

const PATTERN_LENGTH_MAX = 1_024

export const PATH_PATTERN_ALLOWED =
  'a path such as /v1/users, /v1/*/items (* is one segment) or /v1/** (** is any number), ' +
  `with at most ${ELEMENTS_MAX} segments, percent-encoded as in a URL, without ";"`

export function compilePattern(pattern: string): PathMatcher {
  const patterns = new PathPatterns([pattern])
  return (path) => {
    patterns.read(path)
    return patterns.matches(0)
  }
}

/** A compiled pattern. Bit n of a state is set if the first n elements have matched. */
interface Steps {
  /** By the number of a segment's text: the elements that it matches. */
  readonly onward: Int32Array
  /** The elements that are `**`: every segment keeps their position. */
  readonly staying: number
  readonly start: number
  /** The end of the pattern. */
  readonly end: number
  /** A `**` at the end of the pattern: it matches any rest. */
  readonly open: number
  /** The elements before the first `**` and after the last; undefined without a `**`. */
  readonly sides: Sides | undefined
}

/** Numbers of texts, or `ANY`; `behind` is in reverse order. */
interface Sides {
  readonly before: readonly number[]
  readonly behind: readonly number[]
  /** True if there is a single `**`, so that no elements are between. */
  readonly isAll: boolean
}

/** The number of `*`. */
const ANY = -1

/**
 * Nearly all paths have fewer segments. The rest of a long path is read only if a pattern needs it.
 * This is more than the elements of a pattern, so that the segments before a `**` and those after
 * it never overlap in a long path.
 */
const SEGMENTS_AT_FIRST = 32

/** Many patterns over one path, which is read once: `read` it, then ask for each pattern. */
export class PathPatterns {
  readonly #steps: readonly Steps[]
  readonly #texts: SegmentTexts
  readonly #path = new PathCodes()
  /** The start of the next segment; beyond the path if all are read. */
  #at = 0
  /** The numbers of the texts of the segments that were read. */
  #segments: Int32Array = new Int32Array(SEGMENTS_AT_FIRST)
  #count = 0
  /** Whether it has more segments than are read at first. */
  #isLong = false
  /** Segments from the end of a long path, the last one first. */
  readonly #tail = new Int32Array(SEGMENTS_AT_FIRST)
  #tailCount = 0

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
    this.#tailCount = 0
    this.#readMore(SEGMENTS_AT_FIRST)
    this.#isLong = this.#at < this.#path.length
  }

  /** Whether the path that was read matches the pattern at that place. */
  matches(index: number): boolean {
    const steps = this.#steps[index] as Steps
    if (this.#isLong) return this.#matchesLong(steps)
    return follow(steps, this.#segments, this.#count)
  }

  #matchesLong(steps: Steps): boolean {
    const { sides } = steps
    // All its elements are at an end by then.
    if (sides === undefined) return false
    const fits = this.#fits(sides)
    if (!fits || sides.isAll) return fits
    return follow(steps, this.#readRest(), this.#count)
  }

  /** Whether the ends of a long path are as the pattern has them. */
  #fits({ before, behind }: Sides): boolean {
    for (let at = 0; at < before.length; at++) {
      if (before[at] !== ANY && before[at] !== this.#segments[at]) return false
    }
    if (behind.length === 0) return true
    if (this.#tailCount === 0) this.#readTail()
    for (let at = 0; at < behind.length; at++) {
      if (behind[at] !== ANY && behind[at] !== this.#tail[at]) return false
    }
    return true
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
    if (this.#path.isEncoded) {
      this.#readEncoded(countMax)
      return
    }
    const { codes, length } = this.#path
    const segments = this.#segments
    const texts = this.#texts
    const { singles } = texts
    let count = this.#count
    let start = this.#at
    while (start < length && count < countMax) {
      let code = codes[start] as number
      let end = start + 1
      if (code === SLASH) {
        start = end
        continue
      }
      // A path has the most segments where each is a single character.
      if (codes[end] === SLASH && code !== SEMICOLON) {
        segments[count++] = code < singles.length ? (singles[code] as number) : OTHER
        start = end + 1
        continue
      }
      let hash = 0
      end = start
      while (code !== SLASH && code !== SEMICOLON) {
        hash = (Math.imul(hash, 31) + code) | 0
        code = codes[++end] as number
      }
      if (end > start) segments[count++] = texts.numberOf(codes, start, end, hash)
      if (code !== SLASH) while (codes[end] !== SLASH) end++
      start = end + 1
    }
    this.#count = count
    this.#at = start
  }

  /** Reads a path with percent-encoded characters or parameters of segments. */
  #readEncoded(countMax: number): void {
    const { codes, length } = this.#path
    while (this.#at < length && this.#count < countMax) {
      const number = this.#texts.numberAt(codes, this.#at, length)
      if (number !== ABSENT) this.#segments[this.#count++] = number
      while (codes[this.#at] !== SLASH) this.#at++
      this.#at++
    }
  }

  #readTail(): void {
    const { codes, length } = this.#path
    let end = length
    while (end > 0 && this.#tailCount < SEGMENTS_AT_FIRST) {
      let start = end
      while (start > 0 && codes[start - 1] !== SLASH) start--
      const number = this.#texts.numberAt(codes, start, length)
      if (number !== ABSENT) this.#tail[this.#tailCount++] = number
      end = start - 1
    }
  }
}

function follow(steps: Steps, segments: Int32Array, count: number): boolean {
  const { onward, staying, end, open } = steps
  let state = steps.start
  for (let at = 0; at < count; at++) {
    if ((state & open) !== 0) return true
    const text = segments[at] as number
    state = ((state & (onward[text] as number)) << 1) | (state & staying)
    state |= (state & staying) << 1
    if (state === 0) return false
  }
  return (state & (end | open)) !== 0
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
    sides: sidesOf(elements, texts),
  }
}

function sidesOf(elements: readonly string[], texts: readonly string[]): Sides | undefined {
  const first = elements.indexOf('**')
  const last = elements.lastIndexOf('**')
  if (first < 0) return undefined
  const numbers = elements.map((element) => (element === '*' ? ANY : texts.indexOf(element)))
  const before = numbers.slice(0, first)
  return { before, behind: numbers.slice(last + 1).reverse(), isAll: first === last }
}

/**
 * `pchar` of https://www.rfc-editor.org/rfc/rfc3986#section-3.3, in its one canonical spelling, and
 * without the semicolon, before which a segment ends here.
 */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()+,=:@-]|%[0-9A-F]{2})+$/

const NEEDLESS = /[A-Za-z0-9._~!$&'()*+,;=:@-]/

/** True if the text is a pattern in its canonical spelling. */
export function isPathPattern(text: string): boolean {
  if (text.length > PATTERN_LENGTH_MAX || !text.startsWith('/')) return false
  if (text === '/') return true
  const elements = text.slice(1).split('/')
  return elements.length <= ELEMENTS_MAX && elements.every(isElement)
}

function isElement(element: string): boolean {
  if (element === '*' || element === '**') return true
  if (element === '.' || element === '..' || !SEGMENT.test(element)) return false
  // Characters that need no encoding must be plain: encoded, they would match nothing.
  const codes = Array.from(element.matchAll(/%(..)/g), ([, hex]) => Number.parseInt(`${hex}`, 16))
  return codes.every((code) => !NEEDLESS.test(String.fromCharCode(code)))
}
