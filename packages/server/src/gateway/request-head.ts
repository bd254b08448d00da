/**
 * Cleans the header fields of a request: names in lower case and each once, without fields that
 * concern only the client's connection, and without forged fields of the gateway. Fields that two
 * servers could read differently are refused. https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
 */

import type { HeaderList } from './header-list.ts'
import { plainName, type ReservedHeaders } from './reserved-headers.ts'

export interface RequestHead {
  readonly headers: HeaderList
  /** Fields under names that proxies set. */
  readonly forwarded: HeaderList
  readonly host: string
  readonly bodyBytes: number | undefined
  readonly isChunked: boolean
  /** The values of `Connection`, `Expect` and `Upgrade`; empty if there are none. */
  readonly connection: string
  readonly expect: string
  readonly upgrade: string
}

export interface BadHead {
  readonly status: number
  readonly detail: string
}

/** Clients send a few dozen. The time to find duplicates grows with the square. */
export const HEADERS_MAX = 128

/** How fields are treated, by their names. All others are forwarded unchanged. */
const roles = new Map<string, Role>()

type Role = 'dropped' | 'single' | 'cookie' | 'forwarding' | 'framing'

const namesByRole: Readonly<Record<Role, readonly string[]>> = {
  dropped: [
    ...['keep-alive', 'proxy-connection', 'proxy-authorization', 'proxy-authenticate'],
    ...['trailer', 'http2-settings'],
  ],
  // Servers differ in which of several they use, so only the first is forwarded.
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

/** All names with these prefixes are reserved. */
const FORWARDED_PREFIX = 'x-forwarded-'
export const IDENTITY_PREFIX = 'x-tidegate-'

/** `reserved` are further names that this gateway reads or sets. */
export function cleanHead(
  raw: readonly string[],
  reserved: ReservedHeaders,
): RequestHead | BadHead {
  if (raw.length > HEADERS_MAX * 2) {
    return { status: 431, detail: `a request has at most ${HEADERS_MAX} header fields` }
  }
  const head = new HeadBuilder(reserved)
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
  readonly #reserved: ReservedHeaders
  connection = ''
  expect = ''
  upgrade = ''
  host = ''
  bodyBytes: number | undefined = undefined
  isChunked = false
  problem: BadHead | undefined = undefined

  constructor(reserved: ReservedHeaders) {
    this.#reserved = reserved
  }

  add(rawName: string, value: string): void {
    const name = rawName.toLowerCase()
    const role = roles.get(name)
    if (role === 'framing') this.#addFraming(name, value)
    else if (role === 'forwarding' || name.startsWith(FORWARDED_PREFIX)) {
      join(this.forwarded, name, value, ', ')
    } else if (role === 'single') addOnce(this.headers, name, value)
    else if (this.#reserved.isKey(name)) this.#addKey(name, value)
    else if (role === 'cookie') join(this.headers, name, value, '; ')
    else if (role !== 'dropped' && !this.#isForgery(name)) join(this.headers, name, value, ', ')
  }

  /** Servers differ in which of several they use, and joined they would be another key. */
  #addKey(name: string, value: string): void {
    for (let at = 0; at < this.headers.length; at += 2) {
      if (this.headers[at] === name) this.problem = bad(`a request has one ${name}`)
    }
    this.headers.push(name, value)
  }

  /** To be called last: fields that `Connection` names are not forwarded. */
  removeNominated(): void {
    if (this.connection === '') return
    for (const token of this.connection.split(',')) {
      const name = token.trim().toLowerCase()
      if (name === '' || harmlessTokens.has(name)) continue
      if (isProtected(name, this.#reserved)) {
        this.problem = bad('Connection names a header field that must not be removed')
        return
      }
      const { headers } = this
      for (let at = headers.length - 2; at >= 0; at -= 2) {
        if (headers[at] === name) headers.splice(at, 2)
      }
    }
  }

  /** True for fields that only the gateway sets, and for pseudo fields of HTTP/2. */
  #isForgery(name: string): boolean {
    if (name.startsWith(IDENTITY_PREFIX) || name.charCodeAt(0) === COLON) return true
    return isAlias(name, this.#reserved)
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
        // Trailers are forwarded, so this value of TE is too, and no other.
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

/** Options of `Connection` that name no forwarded field. */
const harmlessTokens = new Set(['close', 'keep-alive', 'upgrade', 'te', 'http2-settings'])

const protectedNames = new Set([
  ...['authorization', 'cookie', 'content-type', 'content-encoding', 'accept-encoding', 'range'],
  ...namesByRole.forwarding,
  ...namesByRole.framing,
])

function isProtected(name: string, reserved: ReservedHeaders): boolean {
  const plain = plainName(name)
  return isReserved(plain, reserved) || protectedNames.has(plain)
}

/** Some servers read `X_Forwarded_For` and `X.Forwarded.For` as `X-Forwarded-For`. */
function isAlias(name: string, reserved: ReservedHeaders): boolean {
  const plain = plainName(name)
  if (reserved.has(plain)) return reserved.isAlias(name, plain)
  return plain !== name && (isReserved(plain, reserved) || roles.has(plain))
}

function isReserved(plain: string, reserved: ReservedHeaders): boolean {
  if (plain.startsWith(FORWARDED_PREFIX) || plain.startsWith(IDENTITY_PREFIX)) return true
  return roles.get(plain) === 'forwarding' || reserved.has(plain)
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
