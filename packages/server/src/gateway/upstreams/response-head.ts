/** The header fields of an upstream's answer, without what concerns only its connection. */

import type { HeaderList } from '../message.ts'

type Fields = Readonly<Record<string, string | string[] | undefined>>

const hopByHop: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'transfer-encoding'],
  ...['te', 'upgrade', 'http2-settings'],
])

/** Fields that would change what a message is, were they believed so late. */
const notInTrailers: ReadonlySet<string> = new Set([
  ...['content-length', 'host', 'trailer', 'content-encoding', 'content-type', 'content-range'],
  ...['authorization', 'set-cookie', 'cache-control', 'expect', 'range', 'te'],
])

export function cleanResponseHead(fields: Fields, status: number): HeaderList {
  const { connection } = fields
  const nominated = connection === undefined ? undefined : nominatedBy(connection)
  // One of the two decides how long the body is, and it is not this one.
  const isChunked = fields['transfer-encoding'] !== undefined
  const dropsLength = isChunked || status === 204 || status < 200
  const headers: HeaderList = []
  for (const name in fields) {
    if (hopByHop.has(name) || nominated?.has(name)) continue
    if (name === 'content-length' && dropsLength) continue
    // A body whose length is told has no trailers.
    if (name === 'trailer' && !isChunked) continue
    add(headers, name, fields[name])
  }
  return headers
}

export function cleanTrailers(fields: Fields | undefined): HeaderList | undefined {
  let trailers: HeaderList | undefined
  for (const name in fields) {
    if (hopByHop.has(name) || notInTrailers.has(name)) continue
    trailers ??= []
    add(trailers, name, fields[name])
  }
  return trailers
}

/** For an answer that switches protocols: the connection is what it is about. */
export function upgradeHead(fields: Fields): HeaderList {
  const headers: HeaderList = ['connection', 'Upgrade']
  for (const name in fields) {
    if (name === 'upgrade' || !hopByHop.has(name)) add(headers, name, fields[name])
  }
  return headers
}

function add(headers: HeaderList, name: string, value: string | string[] | undefined): void {
  if (typeof value === 'string') headers.push(name, value)
  else for (const one of value ?? []) headers.push(name, one)
}

/** Undefined where it names nothing but what is dropped anyway. */
function nominatedBy(connection: string | string[]): ReadonlySet<string> | undefined {
  if (connection === 'keep-alive' || connection === 'close') return undefined
  const tokens = String(connection).toLowerCase().split(',')
  return new Set(tokens.map((token) => token.trim()))
}
