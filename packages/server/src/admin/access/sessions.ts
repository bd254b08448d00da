/**
 * Sessions of browsers: a token is swapped for a cookie, so that pages need not keep the token. The
 * cookie carries the caller and its times under a signature. So a session is valid in every process
 * with the same secret, and after a restart.
 *
 * A cookie is valid for 30 minutes and is renewed by requests, up to 8 hours. Its token is checked
 * at every request. The id of a session that was ended is kept until its 8 hours are over, so that
 * a copy of its cookie is refused.
 */

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { EndedSessions } from '../../control/ended-sessions.ts'
import { isRole } from '../../control/roles.ts'
import type { Caller } from './caller.ts'

/** `__Host-` makes browsers refuse the cookie from other hosts and paths. */
export const SESSION_COOKIE = '__Host-tidegate'

const IDLE_MS_MAX = 30 * 60_000
const AGE_MS_MAX = 8 * 3_600_000

/** A cookie that is younger is not renewed, so that few responses carry one. */
const RENEW_AFTER_MS = 60_000

/** A name has at most 64 characters, a certificate's more; browsers take 4,096 bytes. */
const COOKIE_LENGTH_MAX = 2_048

const ID_BYTES = 16

interface Session {
  readonly id: string
  readonly caller: Caller
  readonly endsAtMs: number
  /** When the cookie was made. */
  readonly usedAtMs: number
}

export class Sessions {
  readonly #key: Buffer
  /** False if the token of a session was revoked. */
  readonly #isAllowed: (caller: Caller) => boolean
  readonly #ended: EndedSessions

  /** Processes with the same secret accept the sessions of one another. Default: a random one. */
  constructor(
    isAllowed: (caller: Caller) => boolean,
    secret: string | undefined,
    ended = new EndedSessions(),
  ) {
    this.#isAllowed = isAllowed
    this.#ended = ended
    const base = secret ?? randomBytes(32)
    this.#key = createHmac('sha256', base).update('tidegate sessions').digest()
  }

  /** Returns the field `Set-Cookie`. */
  open(caller: Caller, nowMs: number): string {
    const id = randomBytes(ID_BYTES).toString('base64url')
    return this.#cookie({ id, caller, endsAtMs: nowMs + AGE_MS_MAX, usedAtMs: nowMs })
  }

  find(cookies: string | undefined, nowMs: number): Caller | undefined {
    return this.#read(cookies, nowMs)?.caller
  }

  isOpen(cookies: string | undefined, nowMs: number): boolean {
    return this.#read(cookies, nowMs) !== undefined
  }

  /** Returns the field `Set-Cookie` if the cookie of a valid session is due to be renewed. */
  renewal(cookies: string | undefined, nowMs: number): string | undefined {
    const session = this.#read(cookies, nowMs)
    if (session === undefined || nowMs - session.usedAtMs < RENEW_AFTER_MS) return undefined
    return this.#cookie({ ...session, usedAtMs: nowMs })
  }

  /** Resolves with the field `Set-Cookie` that removes the cookie. */
  async close(cookies: string | undefined): Promise<string> {
    const nowMs = Date.now()
    const session = this.#read(cookies, nowMs)
    if (session !== undefined) await this.#ended.add(session.id, session.endsAtMs, nowMs)
    return cookie('', 0)
  }

  #cookie(session: Session): string {
    const text = Buffer.from(JSON.stringify(session)).toString('base64url')
    const seconds = Math.max(0, Math.floor((session.endsAtMs - session.usedAtMs) / 1_000))
    return cookie(`${text}.${this.#sign(text)}`, seconds)
  }

  #read(cookies: string | undefined, nowMs: number): Session | undefined {
    const value = cookieOf(cookies)
    if (value === undefined || value.length > COOKIE_LENGTH_MAX) return undefined
    const [text = '', signature = ''] = value.split('.')
    if (!isSame(signature, this.#sign(text))) return undefined
    const session = parsed(text)
    if (session === undefined || this.#ended.has(session.id)) return undefined
    const isIdle = nowMs - session.usedAtMs > IDLE_MS_MAX
    if (isIdle || nowMs >= session.endsAtMs || !this.#isAllowed(session.caller)) return undefined
    return session
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('base64url')
  }
}

/** True if the request has the cookie of a session, whether it is valid or not. */
export function hasSessionCookie(cookies: string | undefined): boolean {
  return cookieOf(cookies) !== undefined
}

function cookie(value: string, seconds: number): string {
  const attributes = 'Path=/; HttpOnly; Secure; SameSite=Strict'
  return `${SESSION_COOKIE}=${value}; ${attributes}; Max-Age=${seconds}`
}

function cookieOf(cookies = ''): string | undefined {
  const pair = cookies.split('; ').find((one) => one.startsWith(`${SESSION_COOKIE}=`))
  const value = pair?.slice(SESSION_COOKIE.length + 1)
  return value === '' ? undefined : value
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [Buffer.from(one), Buffer.from(other)]
  return left.length === right.length && timingSafeEqual(left, right)
}

/** The text was signed here; a role of a later version may not be known. */
function parsed(text: string): Session | undefined {
  const session = JSON.parse(Buffer.from(text, 'base64url').toString('utf8')) as Session
  return isRole(session.caller.role) ? session : undefined
}
