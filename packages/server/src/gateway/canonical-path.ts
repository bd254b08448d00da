/**
 * The canonical spelling of a path. It is computed once, and is both matched and forwarded, so that
 * no spelling bypasses a rule. A path without a safe reading, such as one with an encoded slash, is
 * refused. https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
 *
 * The case of letters and a slash at the end stay: they make a different resource.
 */

export interface CanonicalTarget {
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
}

/** Returns the canonical form of a request target, or why it is refused. */
export function canonicalTarget(target: string, host: string): CanonicalTarget | string {
  if (target.charCodeAt(0) === SLASH) return canonicalOrigin(target)
  const absolute = /^https?:\/\/([^/?#\\]*)(.*)$/is.exec(target)
  if (absolute === null) return 'the request target must be a path'
  const [, authority = '', rest = ''] = absolute
  // Servers differ in which host they use, so both must be equal.
  if (authority.toLowerCase() !== host.toLowerCase()) return 'the request target names another host'
  return canonicalOrigin(rest.startsWith('/') ? rest : `/${rest}`)
}

/** Far more than any API has; each segment takes time in every pattern. */
const SEGMENTS_MAX = 1_000

const SLASH = 0x2f
const QUESTION = 0x3f
const PERCENT = 0x25
const DOT = 0x2e

const PLAIN = 0
/** Allowed, but it may have another spelling. */
const UNSURE = 1
const REFUSED = 2

/** The kind of each ASCII character; all others are refused. */
const pathKinds = kinds('%;"<>^`{|}', '\\#')
const queryKinds = kinds('', '#')

/** https://www.rfc-editor.org/rfc/rfc3986#section-2.3 */
const isUnreserved = /[A-Za-z0-9._~-]/

/**
 * Some servers read `..;x` as a segment with a parameter, others as `..`, also with an encoded
 * semicolon. Some make an empty segment of `;x`, others none.
 */
const parameterOfNothing = /^\.{0,2}(;|%3B)/

function canonicalOrigin(target: string): CanonicalTarget | string {
  const { length } = target
  let isPlain = true
  let slashes = 0
  let before = 0
  let at = 0
  for (; at < length; at += 1) {
    const code = target.charCodeAt(at)
    if (code === QUESTION) break
    const kind = code < 128 ? pathKinds[code] : REFUSED
    if (kind === REFUSED) return 'the path has a character that is not allowed'
    if (code === SLASH) slashes += 1
    const isAfterSlash = before === SLASH && (code === SLASH || code === DOT)
    if (kind === UNSURE || isAfterSlash) isPlain = false
    before = code
  }
  if (slashes > SEGMENTS_MAX) return `the path has more than ${SEGMENTS_MAX} segments`
  for (let queryAt = at; queryAt < length; queryAt += 1) {
    const code = target.charCodeAt(queryAt)
    if (code >= 128 || queryKinds[code] === REFUSED) {
      return 'the query has a character that is not allowed'
    }
  }
  if (at === length) {
    return isPlain ? { path: target, query: '' } : rewritten(target, '')
  }
  const path = target.slice(0, at)
  const query = target.slice(at)
  return isPlain ? { path, query } : rewritten(path, query)
}

function rewritten(path: string, query: string): CanonicalTarget | string {
  const decoded = decodeUnreserved(path)
  if (decoded === undefined) return 'the path has an encoded character that is not allowed'
  const segments: string[] = []
  const parts = decoded.split('/')
  for (const part of parts) {
    if (parameterOfNothing.test(part)) return 'the path has a parameter without a segment'
    if (part === '..') segments.pop()
    else if (part !== '' && part !== '.') segments.push(part)
  }
  const last = parts.at(-1)
  const endsWithSlash = segments.length > 0 && (last === '' || last === '.' || last === '..')
  return { path: `/${segments.join('/')}${endsWithSlash ? '/' : ''}`, query }
}

/** Decodes unreserved characters, encodes unsafe ones, and writes hex digits in capitals. */
function decodeUnreserved(path: string): string | undefined {
  let text = ''
  for (let at = 0; at < path.length; at += 1) {
    const code = path.charCodeAt(at)
    if (code !== PERCENT) {
      text += /["<>^`{|}]/.test(path.charAt(at)) ? encoded(code) : path.charAt(at)
      continue
    }
    const byte = byteAt(path, at)
    if (byte === undefined || isUnsafe(byte, byteAt(path, at + 3))) return undefined
    const character = String.fromCharCode(byte)
    text += byte < 128 && isUnreserved.test(character) ? character : encoded(byte)
    at += 2
  }
  return text
}

function byteAt(path: string, at: number): number | undefined {
  const digits = path.slice(at, at + 3)
  return /^%[0-9a-f]{2}$/i.test(digits) ? Number.parseInt(digits.slice(1), 16) : undefined
}

/**
 * Slashes, backslashes and control characters, also as overlong UTF-8, which some decoders accept:
 * https://www.rfc-editor.org/rfc/rfc3629#section-10
 */
function isUnsafe(byte: number, next: number | undefined): boolean {
  if (byte < 0x20 || byte === 0x2f || byte === 0x5c || byte === 0x7f) return true
  if (byte === 0xc0 || byte === 0xc1) return true
  if (next === undefined || next < 0x80) return false
  if ((byte === 0xe0 && next < 0xa0) || (byte === 0xf0 && next < 0x90)) return true
  // Sequences of five and six bytes, which old decoders accept.
  return (byte === 0xf8 && next < 0x88) || (byte === 0xfc && next < 0x84)
}

function encoded(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
}

function kinds(unsure: string, refused: string): Uint8Array {
  const table = new Uint8Array(128)
  for (let code = 0; code < 128; code += 1) {
    const character = String.fromCharCode(code)
    if (code <= 0x20 || code === 0x7f || refused.includes(character)) table[code] = REFUSED
    else table[code] = unsure.includes(character) ? UNSURE : PLAIN
  }
  return table
}
