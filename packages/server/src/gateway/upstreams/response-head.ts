/** The header fields of an upstream's response, without those that concern only its connection. */

import type { HeaderList } from '../header-list.ts'
import type { ResponseHead } from './http1/read-response-head.ts'

const hopByHop: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'transfer-encoding'],
  ...['te', 'upgrade', 'http2-settings'],
])

/** Fields that must not change the meaning of a message after its body. */
const notInTrailers: ReadonlySet<string> = new Set([
  ...['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range'],
  ...['authorization', 'set-cookie', 'cache-control', 'expect', 'range', 'te'],
])

export function cleanResponseHead({ status, headers, isChunked, connection }: ResponseHead) {
  const nominated = connection === '' ? undefined : nominatedBy(connection)
  // The chunks, or the status, decide how long the body is.
  const dropsLength = isChunked || status === 204
  const cleaned: HeaderList = []
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    if (hopByHop.has(name) || nominated?.has(name)) continue
    if (name === 'content-length' && dropsLength) continue
    // A body with a declared length has no trailers.
    if (name === 'trailer' && !isChunked) continue
    cleaned.push(name, headers[at + 1] as string)
  }
  return cleaned
}

export function cleanTrailers(fields: HeaderList): HeaderList | undefined {
  const trailers = without(fields, (name) => hopByHop.has(name) || notInTrailers.has(name))
  return trailers.length === 0 ? undefined : trailers
}

/** For a response that switches protocols, which keeps `Upgrade`. */
export function upgradeHead(fields: HeaderList): HeaderList {
  const isDropped = (name: string) => name !== 'upgrade' && hopByHop.has(name)
  return ['connection', 'Upgrade', ...without(fields, isDropped)]
}

function without(fields: HeaderList, isDropped: (name: string) => boolean): HeaderList {
  const kept: HeaderList = []
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] as string
    if (!isDropped(name)) kept.push(name, fields[at + 1] as string)
  }
  return kept
}

/** Returns undefined if it names only fields that are dropped anyway. */
function nominatedBy(connection: string): ReadonlySet<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(connection.split(',').map((token) => token.trim()))
}
