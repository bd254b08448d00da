/** The header fields of an upstream's answer, without what concerns only its connection. */

import type { HeaderList } from '../message.ts'
import type { AnswerHead } from './http1/read-head.ts'

const hopByHop: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'transfer-encoding'],
  ...['te', 'upgrade', 'http2-settings'],
])

/** Fields that would change what a message is, were they believed so late. */
const notInTrailers: ReadonlySet<string> = new Set([
  ...['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range'],
  ...['authorization', 'set-cookie', 'cache-control', 'expect', 'range', 'te'],
])

export function cleanResponseHead({ status, headers, isChunked, connection }: AnswerHead) {
  const nominated = connection === '' ? undefined : nominatedBy(connection)
  // One of the two decides how long the body is, and it is not this one.
  const dropsLength = isChunked || status === 204
  const cleaned: HeaderList = []
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string
    if (hopByHop.has(name) || nominated?.has(name)) continue
    if (name === 'content-length' && dropsLength) continue
    // A body whose length is told has no trailers.
    if (name === 'trailer' && !isChunked) continue
    cleaned.push(name, headers[at + 1] as string)
  }
  return cleaned
}

export function cleanTrailers(fields: HeaderList): HeaderList | undefined {
  const trailers = without(fields, (name) => hopByHop.has(name) || notInTrailers.has(name))
  return trailers.length === 0 ? undefined : trailers
}

/** For an answer that switches protocols: the connection is what it is about. */
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

/** Undefined where it names nothing but what is dropped anyway. */
function nominatedBy(connection: string): ReadonlySet<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return undefined
  return new Set(connection.split(',').map((token) => token.trim()))
}
