/**
 * Bearer tokens, verified by their signature. A valid token is cached by its digest until it
 * expires, so that it is not verified with every request. The cache is bounded in size and in time,
 * so that tokens of a withdrawn key do not stay valid.
 */

import { hash } from 'node:crypto'
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose'
import type { MaybePromise } from 'tidegate'
import type { Identity } from '../../limits/request-facts.ts'
import type { JwtSection } from '../../policy/schema/auth-section.ts'

/** `unavailable`: the keys to verify the token with could not be fetched. */
export type TokenVerdict = Identity | 'invalid' | 'unavailable'

export interface Tokens {
  readonly isRequired: boolean
  verify(token: string): MaybePromise<TokenVerdict>
}

/** About 5 MB of claims. */
const CACHED_MAX = 10_000

/** The longest time that tokens of a withdrawn signing key stay valid. */
const CACHED_MS_MAX = 300_000

/** Keys are fetched again after this time, and earlier for an unknown key, after a pause. */
const JWKS_AGE_MS_MAX = 600_000
const JWKS_PAUSE_MS = 30_000
const JWKS_TIMEOUT_MS = 5_000

interface CachedToken {
  readonly identity: Identity
  readonly untilMs: number
}

/** `keysText` is the content of `jwksFile`, if there is one. */
export function tokens(section: JwtSection, keysText: string | undefined): Tokens {
  const keys = keySource(section, keysText)
  const cache = new Map<string, CachedToken>()
  return {
    isRequired: section.required,
    verify(token) {
      const digest = hash('sha256', token, 'base64')
      const known = cache.get(digest)
      if (known !== undefined && Date.now() < known.untilMs) return known.identity
      cache.delete(digest)
      return check(token, keys, section).then((payload) => {
        if (typeof payload === 'string') return payload
        const identity = identityOf(payload, section)
        if (identity === undefined) return 'invalid'
        addToCache(cache, digest, identity, payload.exp)
        return identity
      })
    },
  }
}

function keySource({ jwksUrl }: JwtSection, keysText: string | undefined): JWTVerifyGetKey {
  if (keysText !== undefined) return createLocalJWKSet(JSON.parse(keysText) as JSONWebKeySet)
  if (jwksUrl === undefined) throw new Error('auth.jwt: either jwksUrl or jwksFile')
  return createRemoteJWKSet(new URL(jwksUrl), {
    cacheMaxAge: JWKS_AGE_MS_MAX,
    cooldownDuration: JWKS_PAUSE_MS,
    timeoutDuration: JWKS_TIMEOUT_MS,
  })
}

async function check(
  token: string,
  keys: JWTVerifyGetKey,
  { issuer, audience, algorithms, clockTolerance }: JwtSection,
): Promise<JWTPayload | 'invalid' | 'unavailable'> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms,
      clockTolerance: clockTolerance / 1000,
      ...(issuer !== undefined && { issuer }),
      ...(audience !== undefined && { audience }),
    })
    return payload
  } catch (error) {
    // Any other error is a failure to get the keys, not of the token.
    const isAboutToken = error instanceof errors.JOSEError && !isAboutKeys(error)
    return isAboutToken ? 'invalid' : 'unavailable'
  }
}

function isAboutKeys(error: errors.JOSEError): boolean {
  const isMissing = error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid
  return isMissing || error.code === 'ERR_JOSE_GENERIC'
}

/** Returns undefined if `sub` is neither a text nor an integer: it identifies no user. */
export function identityOf(
  payload: JWTPayload,
  section: Pick<JwtSection, 'organisationClaim' | 'tierClaim'>,
): Identity | undefined {
  const user = textOf(payload.sub)
  if (user === undefined && payload.sub !== undefined) return undefined
  const organisation = textOf(payload[section.organisationClaim])
  const tier = section.tierClaim === undefined ? undefined : textOf(payload[section.tierClaim])
  return {
    claims: payload,
    ...(user !== undefined && { user }),
    ...(organisation !== undefined && { organisation }),
    ...(tier !== undefined && { tier }),
  }
}

/** Some issuers number their users. Beyond safe integers, two numbers could be equal. */
function textOf(claim: unknown): string | undefined {
  if (typeof claim === 'number') return Number.isSafeInteger(claim) ? String(claim) : undefined
  return typeof claim === 'string' && claim !== '' ? claim : undefined
}

function addToCache(
  cache: Map<string, CachedToken>,
  digest: string,
  identity: Identity,
  expiresS = Number.POSITIVE_INFINITY,
): void {
  if (cache.size >= CACHED_MAX) {
    const [oldest] = cache.keys()
    if (oldest !== undefined) cache.delete(oldest)
  }
  const untilMs = Math.min(expiresS * 1000, Date.now() + CACHED_MS_MAX)
  cache.set(digest, { identity, untilMs })
}
