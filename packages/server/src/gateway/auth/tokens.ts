/**
 * Bearer tokens, checked by their signature. A token that was found valid is remembered by its
 * digest until it expires, so that one in use is not verified with every request; what is
 * remembered is bounded in number and in time, so that withdrawn keys do not live on.
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
import type { JwtSection } from '../../policy/gateway-section.ts'
import type { Identity } from '../../policy/request-facts.ts'
import type { MaybePromise } from '../message.ts'

/** An identity, or: `invalid`, or `unavailable` where the keys to check it with are not there. */
export type TokenVerdict = Identity | 'invalid' | 'unavailable'

export interface Tokens {
  readonly isRequired: boolean
  verify(token: string): MaybePromise<TokenVerdict>
}

/** About 5 MB of claims. */
const REMEMBERED_MAX = 10_000

/** The longest time for which a withdrawn signing key still counts. */
const REMEMBERED_MS_MAX = 300_000

/** Keys are fetched anew this often, and at most this often for a key that is not known. */
const JWKS_AGE_MS_MAX = 600_000
const JWKS_PAUSE_MS = 30_000
const JWKS_TIMEOUT_MS = 5_000

interface Remembered {
  readonly identity: Identity
  readonly untilMs: number
}

/** `keysText` is the content of `jwksFile`, where there is one. */
export function tokens(section: JwtSection, keysText: string | undefined): Tokens {
  const keys = keySource(section, keysText)
  const remembered = new Map<string, Remembered>()
  return {
    isRequired: section.required,
    verify(token) {
      const digest = hash('sha256', token, 'base64')
      const known = remembered.get(digest)
      if (known !== undefined && Date.now() < known.untilMs) return known.identity
      remembered.delete(digest)
      return check(token, keys, section).then((payload) => {
        if (typeof payload === 'string') return payload
        const identity = identityOf(payload, section)
        remember(remembered, digest, identity, payload.exp)
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
    // Everything else is a failure to get the keys, and not the token's.
    const isAboutToken = error instanceof errors.JOSEError && !isAboutKeys(error)
    return isAboutToken ? 'invalid' : 'unavailable'
  }
}

function isAboutKeys(error: errors.JOSEError): boolean {
  const isMissing = error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid
  return isMissing || error.code === 'ERR_JOSE_GENERIC'
}

function identityOf(payload: JWTPayload, section: JwtSection): Identity {
  const organisation = textOf(payload[section.organisationClaim])
  const tier = section.tierClaim === undefined ? undefined : textOf(payload[section.tierClaim])
  return {
    claims: payload,
    ...(payload.sub !== undefined && { user: payload.sub }),
    ...(organisation !== undefined && { organisation }),
    ...(tier !== undefined && { tier }),
  }
}

function textOf(claim: unknown): string | undefined {
  return typeof claim === 'string' && claim !== '' ? claim : undefined
}

function remember(
  remembered: Map<string, Remembered>,
  digest: string,
  identity: Identity,
  expiresS = Number.POSITIVE_INFINITY,
): void {
  if (remembered.size >= REMEMBERED_MAX) {
    const [oldest] = remembered.keys()
    if (oldest !== undefined) remembered.delete(oldest)
  }
  const untilMs = Math.min(expiresS * 1000, Date.now() + REMEMBERED_MS_MAX)
  remembered.set(digest, { identity, untilMs })
}
