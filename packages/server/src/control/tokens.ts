/**
 * Tokens of operators: `tg_<id>_<secret>`. The store has the SHA-256 of a token, never the token.
 * A secret has 256 random bits, so that a fast hash is enough. Tokens are found by their id in
 * memory, and compared in constant time.
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import type { KeyValueStore, Snapshot, Write } from './key-value.ts'
import { actorName } from './plain-text.ts'
import { type Role, roles } from './roles.ts'

export const TOKENS_PREFIX = 'tokens/'

/** More than any team has people and programs. */
export const TOKENS_MAX = 1_000

const ID_BYTES = 6
const SECRET_BYTES = 32

const time = z.iso.datetime({ offset: true })

const storedToken = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{12}$/),
  name: actorName,
  role: z.enum(roles),
  /** The SHA-256 of the whole token, in hex. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  by: actorName,
  at: time,
  expires: time.nullable(),
})

export type StoredToken = z.output<typeof storedToken>

/** A token without its hash, for lists. */
export type TokenSummary = Omit<StoredToken, 'hash'> & {
  /** An ISO time; null if this node has not seen it since it started. */
  readonly lastUsed: string | null
}

export interface NewToken {
  /** Shown once. */
  readonly token: string
  readonly stored: StoredToken
  readonly write: Write
}

export interface TokenSettings {
  readonly name: string
  readonly role: Role
  readonly by: string
  /** An ISO time; null for no end. */
  readonly expires: string | null
}

export function createToken(settings: TokenSettings): NewToken {
  const id = randomBytes(ID_BYTES).toString('hex')
  const token = `tg_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`
  const at = new Date().toISOString()
  const stored: StoredToken = { id, ...settings, hash: digest(token).toString('hex'), at }
  return { token, stored, write: { key: tokenKey(id), value: JSON.stringify(stored) } }
}

export function tokenKey(id: string): string {
  return `${TOKENS_PREFIX}${id}`
}

/** The tokens of a store in memory, kept up to date. */
export class TokenBook {
  readonly #lastUsed = new Map<string, number>()
  readonly #end: () => void
  #tokens: ReadonlyMap<string, StoredToken> = new Map()

  constructor(store: KeyValueStore) {
    this.#end = store.follow(TOKENS_PREFIX, {
      onChange: (snapshot) => {
        this.#tokens = tokensOf(snapshot)
        for (const id of this.#lastUsed.keys()) if (!this.#tokens.has(id)) this.#lastUsed.delete(id)
      },
      onContact: () => undefined,
    })
  }

  get size(): number {
    return this.#tokens.size
  }

  /** The token, if it is valid at this time. */
  find(token: string, nowMs: number): StoredToken | undefined {
    const id = /^tg_([0-9a-f]{12})_/.exec(token)?.[1] ?? ''
    const known = this.#tokens.get(id)
    // An unknown id takes as long as a wrong secret.
    const expected = known === undefined ? noDigest : Buffer.from(known.hash, 'hex')
    const isEqual = timingSafeEqual(digest(token), expected)
    if (known === undefined || !isEqual || isExpired(known, nowMs)) return undefined
    this.#lastUsed.set(id, nowMs)
    return known
  }

  /** True if the token was neither revoked nor has expired. */
  isValid(id: string, nowMs: number): boolean {
    const known = this.#tokens.get(id)
    return known !== undefined && !isExpired(known, nowMs)
  }

  list(): readonly TokenSummary[] {
    return [...this.#tokens.values()].map(({ hash: _, ...token }) => {
      const usedAt = this.#lastUsed.get(token.id)
      return { ...token, lastUsed: usedAt === undefined ? null : new Date(usedAt).toISOString() }
    })
  }

  close(): void {
    this.#end()
  }
}

const noDigest = Buffer.alloc(SECRET_BYTES)

function tokensOf({ entries }: Snapshot): ReadonlyMap<string, StoredToken> {
  const tokens = new Map<string, StoredToken>()
  for (const { key, value } of entries.slice(0, TOKENS_MAX)) {
    const token = tokenOf(value)
    if (token !== undefined && key === tokenKey(token.id)) tokens.set(token.id, token)
  }
  return tokens
}

function tokenOf(text: string): StoredToken | undefined {
  try {
    return storedToken.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

function isExpired({ expires }: StoredToken, nowMs: number): boolean {
  return expires !== null && Date.parse(expires) <= nowMs
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
