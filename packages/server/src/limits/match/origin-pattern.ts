/**
 * Patterns of origins: an origin as browsers send it, with `*` for one or more labels at the start
 * of a host, or for any port. `https://*.example.com` does not include `https://example.com`.
 */

export const ANY_ORIGIN = '*'

const NAME = /(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*/.source
const ADDRESS = /\[[0-9a-f:.]+\]/.source
const PORT = /\d{1,5}|\*/.source
const shape = new RegExp(`^([a-z][a-z0-9+.-]*)://(?:${NAME}|${ADDRESS})(?::(${PORT}))?$`)

/** A browser leaves out the port that a scheme has by default, so such a pattern fits no origin. */
const defaultPorts: Readonly<Record<string, string>> = { http: '80', https: '443' }

/** Whether a text in lower case can be the origin of a page, or a pattern of origins. */
export function isOriginPattern(text: string): boolean {
  if (text === ANY_ORIGIN) return true
  const [, scheme = '', port] = shape.exec(text) ?? []
  return scheme !== '' && (port === undefined || port !== defaultPorts[scheme])
}

/** Returns whether an origin fits one of the patterns, which must be valid. */
export function originMatcher(patterns: readonly string[]): (origin: string) => boolean {
  if (patterns.includes(ANY_ORIGIN)) return () => true
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const wild = patterns.filter((pattern) => pattern.includes('*')).map(wildPattern)
  return (origin) => exact.has(origin) || wild.some((fits) => fits(origin))
}

const LABELS = /^[a-z0-9_-][a-z0-9._-]*$/

function wildPattern(pattern: string): (origin: string) => boolean {
  const isAnyPort = pattern.endsWith(':*')
  const [start = '', end] = (isAnyPort ? pattern.slice(0, -2) : pattern).split('*', 2)
  return (origin) => {
    // A page on the default port of its scheme has none in its origin.
    const rest = isAnyPort ? origin.replace(/:\d{1,5}$/, '') : origin
    if (end === undefined) return rest === start
    const isLong = rest.length > start.length + end.length
    if (!isLong || !rest.startsWith(start) || !rest.endsWith(end)) return false
    return LABELS.test(rest.slice(start.length, rest.length - end.length))
  }
}
