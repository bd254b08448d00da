/**
 * Hosts that a route is for: a name, an address, or `*.example.com`. The star stands for one label
 * or more, so for `a.example.com` and `a.b.example.com`, but not for `example.com`. nginx and Envoy
 * read it in the same way: https://nginx.org/en/docs/http/server_names.html#wildcard_names
 *
 * Letter case, a port and the dot at the end of a full name make no difference. Names outside of
 * ASCII are compared as clients send them, in their `xn--` form.
 */

import { domainToASCII } from 'node:url'

export type HostMatcher = (host: string) => boolean

export const HOST_PATTERN_ALLOWED =
  'a host such as api.example.com, or *.example.com for all names below it, without a port'

const LENGTH_MAX = 255

const ADDRESS = /^\[[0-9a-f:.]+\]$/

/** Underscores are not in host names of the Internet, but in those of many internal networks. */
const NAME = /^(\*\.)?([a-z0-9_~]([a-z0-9_~-]{0,62})\.)*[a-z0-9_~]([a-z0-9_~-]{0,62})$/

/** Returns the form that hosts are compared in, or undefined if the text is not a pattern. */
export function parseHostPattern(text: string): string | undefined {
  const pattern = canonicalPattern(text)
  if (pattern.length > LENGTH_MAX) return undefined
  return ADDRESS.test(pattern) || NAME.test(pattern) ? pattern : undefined
}

/** `pattern` is one that `parseHostPattern` has returned. */
export function hostMatcher(pattern: string): HostMatcher {
  if (!pattern.startsWith('*')) return (host) => host === pattern
  const suffix = pattern.slice(1)
  return (host) => host.length > suffix.length && host.endsWith(suffix) && !host.startsWith('.')
}

/** The Host of a request in the form of the patterns. */
export function canonicalHost(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '')
}

function canonicalPattern(text: string): string {
  const lower = text.toLowerCase().replace(/(?<=.)\.$/, '')
  if (Buffer.byteLength(lower) === lower.length) return lower
  const star = lower.startsWith('*.') ? '*.' : ''
  return star + domainToASCII(lower.slice(star.length))
}
