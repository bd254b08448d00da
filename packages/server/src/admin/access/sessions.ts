/**
 * Sessions of browsers, in the memory of this process: a token is swapped for a cookie, so that
 * pages need not keep the token. The id is random, and only its digest is kept.
 */

import { createHash, randomBytes } from 'node:crypto'
import type { Caller } from './caller.ts'

/** `__Host-` makes browsers refuse the cookie from other hosts and paths. */
export const SESSION_COOKIE = '__Host-tidegate'

const IDLE_MS_MAX = 30 * 60_000
const AGE_MS_MAX = 8 * 3_600_000

/** Far more than operators. Beyond it, the session that was used longest ago ends. */
const SESSIONS_MAX = 1_000

const ID_BYTES = 32

interface Session {
  readonly caller: Caller
  readonly endsAtMs: number
  usedAtMs: number
}

export class Sessions {
  /** By digest, the one that was used longest ago first. */
  readonly #sessions = new Map<string, Session>()
  /** False if the token of a session was revoked. */
  readonly #isAllowed: (caller: Caller) => boolean

  constructor(isAllowed: (caller: Caller) => boolean) {
    this.#isAllowed = isAllowed
  }

  /** Returns the field `Set-Cookie`. */
  open(caller: Caller, nowMs: number): string {
    const id = randomBytes(ID_BYTES).toString('base64url')
    const [oldest] = this.#sessions.keys()
    if (this.#sessions.size >= SESSIONS_MAX && oldest !== undefined) this.#sessions.delete(oldest)
    const endsAtMs = nowMs + AGE_MS_MAX
    this.#sessions.set(digest(id), { caller, endsAtMs, usedAtMs: nowMs })
    return cookie(id, AGE_MS_MAX / 1_000)
  }

  find(cookies: string | undefined, nowMs: number): Caller | undefined {
    const key = keyOf(cookies)
    const session = key === undefined ? undefined : this.#sessions.get(key)
    if (key === undefined || session === undefined) return undefined
    this.#sessions.delete(key)
    const isIdle = nowMs - session.usedAtMs > IDLE_MS_MAX
    if (isIdle || nowMs >= session.endsAtMs || !this.#isAllowed(session.caller)) return undefined
    session.usedAtMs = nowMs
    this.#sessions.set(key, session)
    return session.caller
  }

  /** Returns the field `Set-Cookie` that removes the cookie. */
  close(cookies: string | undefined): string {
    const key = keyOf(cookies)
    if (key !== undefined) this.#sessions.delete(key)
    return cookie('', 0)
  }
}

/** True if the request has the cookie of a session, whether it is valid or not. */
export function hasSessionCookie(cookies: string | undefined): boolean {
  return keyOf(cookies) !== undefined
}

function cookie(value: string, seconds: number): string {
  const attributes = 'Path=/; HttpOnly; Secure; SameSite=Strict'
  return `${SESSION_COOKIE}=${value}; ${attributes}; Max-Age=${seconds}`
}

function keyOf(cookies = ''): string | undefined {
  const pair = cookies.split('; ').find((one) => one.startsWith(`${SESSION_COOKIE}=`))
  const id = pair?.slice(SESSION_COOKIE.length + 1)
  return id === undefined || id === '' ? undefined : digest(id)
}

function digest(id: string): string {
  return createHash('sha256').update(id).digest('hex')
}
