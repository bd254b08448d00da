/**
 * The header fields of a request, cleaned: in lower case, every name once, without what concerns
 * only the client's connection, and without what pretends to be ours. What would be read in two
 * ways by two servers is refused. https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
 */

import type { HeaderList } from './message.ts'
import { type OwnedNames, plainName } from './owned-names.ts'

export interface RequestHead {
  readonly headers: HeaderList
  /** What came under names that proxies set. */
  readonly forwarded: HeaderList
  readonly host: string
  readonly bodyBytes: number | undefined
  readonly isChunked: boolean
  /** What `Connection`, `Expect` and `Upgrade` say; empty where they are not there. */
  readonly connection: string
  readonly expect: string
  readonly upgrade: string
}

export interface BadHead {
  readonly status: number
  readonly detail: string
}

/** Nobody needs more; looking for doubles takes the square of it. */
export const HEADERS_MAX = 128

/** What a name of a header field is to us; all others are forwarded as they are. */
const roles = new Map<string, Role>()

type Role = 'dropped' | 'single' | 'cookie' | 'forwarding' | 'framing'

const namesByRole: Readonly<Record<Role, readonly string[]>> = {
  dropped: [
    ...['keep-alive', 'proxy-connection', 'proxy-authorization', 'proxy-authenticate'],
    ...['trailer', 'http2-settings'],
  ],
  // Servers differ in which of several they take, so only one goes on.
  single: [
    ...['authorization', 'content-type', 'content-encoding', 'user-agent', 'referer', 'from'],
    ...['if-modified-since', 'if-unmodified-since', 'max-forwards', 'content-location'],
  ],
  cookie: ['cookie'],
  forwarding: ['forwarded', 'x-real-ip'],
  framing: [
    ...['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te'],
    'expect',
  ],
}

for (const [role, names] of Object.entries(namesByRole)) {
  for (const name of names) roles.set(name, role as Role)
}

/** Names under these are ours, whatever follows. */
const FORWARDED_PREFIX = 'x-forwarded-'
export const IDENTITY_PREFIX = 'x-tidegate-'

/** Cleans header fields; `owned` are further names that this gateway reads or sets. */
export function cleanHead(raw: readonly string[], owned: OwnedNames): RequestHead | BadHead {
  if (raw.length > HEADERS_MAX * 2) {
    return { status: 431, detail: `a request has at most ${HEADERS_MAX} header fields` }
  }
  const head = new HeadBuilder(owned)
  for (let at = 0; at < raw.length; at += 2) {
    head.add(raw[at] as string, raw[at + 1] as string)
    if (head.problem !== undefined) return head.problem
  }
  head.removeNominated()
  return head.problem ?? head
}

const COLON = 0x3a

class HeadBuilder implements RequestHead {
  readonly headers: HeaderList = []
  readonly forwarded: HeaderList = []
  readonly #owned: OwnedNames
  connection = ''
  expect = ''
  upgrade = ''
  host = ''
  bodyBytes: number | undefined = undefined
  isChunked = false
  problem: BadHead | undefined = undefined

  constructor(owned: OwnedNames) {
    this.#owned = owned
  }

  add(rawName: string, value: string): void {
    const name = rawName.toLowerCase()
    const role = roles.get(name)
    if (role === 'framing') this.#addFraming(name, value)
    else if (role === 'forwarding' || name.startsWith(FORWARDED_PREFIX)) {
      join(this.forwarded, name, value, ', ')
    } else if (role === 'single') addOnce(this.headers, name, value)
    else if (this.#owned.isKey(name)) this.#addKey(name, value)
    else if (role === 'cookie') join(this.headers, name, value, '; ')
    else if (role !== 'dropped' && !this.#isForgery(name)) join(this.headers, name, value, ', ')
  }

  /** Servers differ in which of several they take, and joined they would be a key of their own. */
  #addKey(name: string, value: string): void {
    for (let at = 0; at < this.headers.length; at += 2) {
      if (this.headers[at] === name) this.problem = bad(`a request has one ${name}`)
    }
    this.headers.push(name, value)
  }

  /** After all are added: a field that `Connection` names is for us alone. */
  removeNominated(): void {
    if (this.connection === '') return
    for (const token of this.connection.split(',')) {
      const name = token.trim().toLowerCase()
      if (name === '' || harmlessTokens.has(name)) continue
      if (isProtected(name, this.#owned)) {
        this.problem = bad('Connection names a header field that is not its to remove')
        return
      }
      const { headers } = this
      for (let at = headers.length - 2; at >= 0; at -= 2) {
        if (headers[at] === name) headers.splice(at, 2)
      }
    }
  }

  /** What only we may say; and the pseudo fields of HTTP/2, which are for nobody else. */
  #isForgery(name: string): boolean {
    if (name.startsWith(IDENTITY_PREFIX) || name.charCodeAt(0) === COLON) return true
    return isAlias(name, this.#owned)
  }

  #addFraming(name: string, value: string): void {
    switch (name) {
      case 'host':
        if (this.host !== '') this.problem = bad('a request has one Host')
        else if (!isHost(value)) this.problem = bad('Host must be a host and perhaps a port')
        else this.host = value
        return
      case 'connection':
        this.connection = joined(this.connection, value)
        return
      case 'content-length':
        if (this.bodyBytes !== undefined || !/^\d{1,15}$/.test(value)) {
          this.problem = bad('a request has one Content-Length, a whole number')
        } else this.bodyBytes = Number(value)
        return
      case 'transfer-encoding':
        if (this.isChunked || value.toLowerCase() !== 'chunked') {
          this.problem = { status: 501, detail: 'the only transfer coding here is chunked' }
        } else this.isChunked = true
        return
      case 'te':
        // Of what TE says, only this goes on, because trailers do.
        if (/(^|,)\s*trailers\s*(,|;|$)/i.test(value)) addOnce(this.headers, 'te', 'trailers')
        return
      case 'upgrade':
        this.upgrade = joined(this.upgrade, value)
        return
      default:
        this.expect = joined(this.expect, value)
        return
    }
  }
}

/** What may stand in `Connection` and names nothing that is forwarded. */
const harmlessTokens = new Set(['close', 'keep-alive', 'upgrade', 'te', 'http2-settings'])

const protectedNames = new Set([
  ...['authorization', 'cookie', 'content-type', 'content-encoding', 'accept-encoding', 'range'],
  ...namesByRole.forwarding,
  ...namesByRole.framing,
])

function isProtected(name: string, owned: OwnedNames): boolean {
  const plain = plainName(name)
  return isOurs(plain, owned) || protectedNames.has(plain)
}

/** Other servers take `X_Forwarded_For` and `X.Forwarded.For` for `X-Forwarded-For`. */
function isAlias(name: string, owned: OwnedNames): boolean {
  const plain = plainName(name)
  if (owned.has(plain)) return owned.isAlias(name, plain)
  return plain !== name && (isOurs(plain, owned) || roles.has(plain))
}

function isOurs(plain: string, owned: OwnedNames): boolean {
  if (plain.startsWith(FORWARDED_PREFIX) || plain.startsWith(IDENTITY_PREFIX)) return true
  return roles.get(plain) === 'forwarding' || owned.has(plain)
}

function joined(before: string, value: string): string {
  return before === '' ? value : `${before},${value}`
}

function addOnce(headers: HeaderList, name: string, value: string): void {
  for (let at = 0; at < headers.length; at += 2) if (headers[at] === name) return
  headers.push(name, value)
}

function join(headers: HeaderList, name: string, value: string, separator: string): void {
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === name) {
      headers[at + 1] += `${separator}${value}`
      return
    }
  }
  headers.push(name, value)
}

export function isHost(value: string): boolean {
  return /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(:\d{1,5})?$/.test(value)
}

function bad(detail: string): BadHead {
  return { status: 400, detail }
}
