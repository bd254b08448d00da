/**
 * Finds the caller of a request by token, client certificate or session, in this order. Failures
 * are charged to the address and to all addresses together, and are written to the audit, at most
 * some a minute. Every failure has the same response.
 */

import { createHash, timingSafeEqual } from 'node:crypto'
import { ipKey, parseIp } from 'tidegate/http'
import type { Role } from '../../control/roles.ts'
import type { TokenBook } from '../../control/tokens.ts'
import { ApiError } from '../../http-api/api-error.ts'
import type { ApiRequest } from '../../http-api/messages.ts'
import { FailedAttempts } from '../../limits/failed-attempts.ts'
import type { Caller } from './caller.ts'
import { checkSameOrigin } from './same-origin.ts'
import { hasSessionCookie, type Sessions } from './sessions.ts'

const MINUTE_MS = 60_000

/** A person mistypes a token twice, a guess of 256 bits needs more. */
const FAILURES_PER_ADDRESS = { limit: 5, per: MINUTE_MS }
const FAILURES_IN_ALL = { limit: 50, per: MINUTE_MS }

/** Far more than operators have addresses. Beyond it, the one that came first is forgotten. */
const KNOWN_ADDRESSES_MAX = 1_000

/** Bits of an IPv6 address by which clients are told apart. */
const IPV6_PREFIX = 64

export interface Credentials {
  readonly tokens: TokenBook
  readonly sessions: Sessions
  /** The token of the policy, which has the role `admin`. */
  readonly bootstrapToken: string | undefined
  /** Roles by a name in the client's certificate. */
  readonly certificateRoles: Readonly<Record<string, Role>>
  /** Called for every failure. */
  onFailure(request: ApiRequest): void
}

export class Authentication {
  readonly #credentials: Credentials
  readonly #byAddress = new FailedAttempts(FAILURES_PER_ADDRESS)
  readonly #inAll = new FailedAttempts(FAILURES_IN_ALL)
  readonly #bootstrap: Buffer | undefined
  /** Addresses that have sent a valid credential: a flood of others must not lock them out. */
  readonly #known = new Set<string>()

  constructor(credentials: Credentials) {
    this.#credentials = credentials
    const { bootstrapToken } = credentials
    this.#bootstrap = bootstrapToken === undefined ? undefined : digest(bootstrapToken)
  }

  /** Throws 401 without a valid credential, and 429 after too many failures. */
  callerOf(request: ApiRequest): Caller {
    const { authorization, cookie } = request.headers
    const certificate = this.#byCertificate(request)
    if (authorization === undefined && certificate !== undefined) return certificate
    if (authorization === undefined && !hasSessionCookie(cookie)) throw unauthorized()
    const client = clientOf(request.remoteAddress)
    this.#refuseAfterFailures(client)
    const nowMs = Date.now()
    const caller =
      authorization === undefined
        ? this.#credentials.sessions.find(cookie, nowMs)
        : this.#byToken(authorization, nowMs)
    if (caller === undefined) {
      this.#byAddress.note(client)
      this.#inAll.note('all')
      this.#credentials.onFailure(request)
      throw unauthorized()
    }
    if (authorization === undefined) checkSameOrigin(request)
    this.#remember(client)
    return caller
  }

  #byToken(authorization: string, nowMs: number): Caller | undefined {
    // https://www.rfc-editor.org/rfc/rfc9110#section-11.1: the scheme is case-insensitive.
    const token = /^bearer +(.*)$/i.exec(authorization)?.[1] ?? ''
    const isBootstrap =
      this.#bootstrap !== undefined && timingSafeEqual(digest(token), this.#bootstrap)
    const found = this.#credentials.tokens.find(token, nowMs)
    if (isBootstrap) return bootstrapCaller
    if (found === undefined) return undefined
    const { id, name, role } = found
    return { kind: 'token', id, name, role }
  }

  #byCertificate({ certificateNames }: ApiRequest): Caller | undefined {
    const { certificateRoles } = this.#credentials
    const name = certificateNames.find((one) => Object.hasOwn(certificateRoles, one))
    const role = name === undefined ? undefined : certificateRoles[name]
    if (name === undefined || role === undefined) return undefined
    return { kind: 'certificate', id: name, name, role }
  }

  #remember(client: string): void {
    const [first] = this.#known
    if (this.#known.size >= KNOWN_ADDRESSES_MAX && first !== undefined) this.#known.delete(first)
    this.#known.add(client)
  }

  #refuseAfterFailures(client: string): void {
    const refused =
      this.#byAddress.refusalOf(client) ??
      (this.#known.has(client) ? undefined : this.#inAll.refusalOf('all'))
    if (refused === undefined) return
    const retryAfterS = Math.ceil(refused.decision.retryAfterMs / 1_000)
    const headers = { 'Retry-After': String(retryAfterS) }
    throw new ApiError(429, 'There were too many wrong credentials.', headers)
  }
}

/** The token of the policy has no id in the store. */
export const bootstrapCaller: Caller = {
  kind: 'token',
  id: 'bootstrap',
  name: 'bootstrap',
  role: 'admin',
}

function unauthorized(): ApiError {
  const text = 'Send a token as Authorization: Bearer, a client certificate or a session.'
  return new ApiError(401, text, { 'WWW-Authenticate': 'Bearer' })
}

function clientOf(address: string | undefined): string {
  const ip = parseIp(address ?? '')
  return ip === undefined ? 'unknown' : ipKey(ip, IPV6_PREFIX)
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
