/**
 * Identifies the caller by API key, token and client certificate. Invalid credentials are refused
 * with 401 even if none are required: a caller that sends credentials intends to authenticate.
 * Failures are charged to the client's address. Credentials from an address with too many failures
 * are refused with 429 before they are checked.
 */

import type { Decision, Evaluation } from 'tidegate'
import { FAILURES_LIMIT, type FailedAttempts } from '../../limits/failed-attempts.ts'
import { unlimited } from '../../limits/outcome.ts'
import type { Identity } from '../../limits/request-facts.ts'
import type { AuthSection } from '../../policy/schema/auth-section.ts'
import { type ApiKeys, digestOf } from '../auth/api-keys.ts'
import { certificateIdentity } from '../auth/certificate.ts'
import type { Tokens, TokenVerdict } from '../auth/tokens.ts'
import type { GatewayRequest, GatewayResponse } from '../message.ts'
import type { Handler, Stage } from '../pipeline.ts'
import { refusal } from '../refusal.ts'
import { isExempt } from './ip-lists.ts'
import { preflightMethod } from './preflights.ts'
import { limitOutcome } from './rate-limit.ts'
import type { RefusedResponse } from './refused-responses.ts'

export interface Authenticators {
  readonly apiKeys: ApiKeys | undefined
  readonly tokens: Tokens | undefined
  readonly certificate: AuthSection['certificate']
  readonly failures: FailedAttempts
  /** Makes the response for a limit that denies. */
  readonly refusedResponse: RefusedResponse
}

const KEY_HEADER = 'x-api-key'

/** At most 0.5 MB together. */
const DIGESTS_MAX = 1_024
const DIGESTED_LENGTH_MAX = 256

const KEY_CHALLENGE = 'ApiKey'
const TOKEN_CHALLENGE = 'Bearer'

type Parts = { -readonly [Part in keyof Identity]: Identity[Part] }

export function authenticate(authenticators: Authenticators): Stage {
  const { apiKeys, tokens, certificate } = authenticators
  const identifyKey = apiKeys === undefined ? byDigest() : byKnownKeys(apiKeys, authenticators)
  return (request, next) => {
    // Browsers send no credentials with a pre-flight: https://fetch.spec.whatwg.org/#cors-protocol
    if (request.context.get(preflightMethod) !== undefined) return next(request)
    const parts: Parts = {}
    const problem = identifyKey(request, parts)
    if (problem !== undefined) return problem
    const shown = request.connection.certificate
    if (shown !== undefined) parts.certificate = certificateIdentity(shown, certificate.identity)
    const proceed = () => {
      request.identity = parts
      return next(request)
    }
    return tokens === undefined
      ? proceed()
      : withToken(tokens, authenticators, request, parts, proceed)
  }
}

/**
 * Without a list of keys, a key distinguishes callers and proves nothing. Digests of keys in use
 * are cached: in a flood, computing them would be the largest part of a refusal.
 */
function byDigest() {
  const digests = new Map<string, string>()
  return (request: GatewayRequest, parts: Parts): undefined => {
    const key = request.header(KEY_HEADER)
    if (key === undefined || key === '') return
    let digest = digests.get(key)
    if (digest === undefined) {
      digest = digestOf(key)
      if (digests.size >= DIGESTS_MAX) digests.clear()
      if (key.length <= DIGESTED_LENGTH_MAX) digests.set(key, digest)
    }
    parts.apiKey = digest
  }
}

function byKnownKeys(apiKeys: ApiKeys, authenticators: Authenticators) {
  const { failures } = authenticators
  return (request: GatewayRequest, parts: Parts): GatewayResponse | undefined => {
    const key = request.header(apiKeys.header)
    if (key === undefined || key === '') {
      return apiKeys.isRequired ? unauthorized('An API key is needed.', KEY_CHALLENGE) : undefined
    }
    const { client, context } = request
    const refused = context.get(isExempt) ? undefined : failures.refusalOf(client)
    if (refused !== undefined) return tooManyFailures(refused, request, authenticators)
    const known = apiKeys.find(key)
    if (known === undefined) {
      if (!context.get(isExempt)) failures.note(client)
      return unauthorized('The API key is not known.', KEY_CHALLENGE)
    }
    parts.apiKey = known.id
    if (known.organisation !== undefined) parts.organisation = known.organisation
    if (known.tier !== undefined) parts.tier = known.tier
    return undefined
  }
}

function withToken(
  tokens: Tokens,
  authenticators: Authenticators,
  request: GatewayRequest,
  parts: Parts,
  proceed: () => ReturnType<Handler>,
): ReturnType<Handler> {
  const token = bearerOf(request.header('authorization'))
  if (token === undefined) {
    if (!tokens.isRequired) return proceed()
    return unauthorized('A bearer token is needed.', TOKEN_CHALLENGE)
  }
  const settle = (verdict: TokenVerdict | Evaluation<Decision>) => {
    if (verdict === 'unavailable') {
      return refusal(503, 'Tokens cannot be checked at the moment.', ['retry-after', '1'])
    }
    if (verdict === 'invalid') {
      // https://www.rfc-editor.org/rfc/rfc6750#section-3.1
      return unauthorized('The token is not valid.', `${TOKEN_CHALLENGE} error="invalid_token"`)
    }
    if ('decision' in verdict) return tooManyFailures(verdict, request, authenticators)
    Object.assign(parts, verdict)
    return proceed()
  }
  const verify = () => tokens.verify(token)
  const verdict = request.context.get(isExempt)
    ? verify()
    : authenticators.failures.attempt(request.client, verify, isInvalid)
  return verdict instanceof Promise ? verdict.then(settle) : settle(verdict)
}

function isInvalid(verdict: TokenVerdict): boolean {
  return verdict === 'invalid'
}

/** Sets a verdict, so that it is logged like the denial of any other limit. */
function tooManyFailures(
  evaluation: Evaluation<Decision>,
  request: GatewayRequest,
  { refusedResponse }: Authenticators,
): GatewayResponse {
  const denied = { outcome: 'denied', evaluation, refusedBy: FAILURES_LIMIT } as const
  request.context.set(limitOutcome, { ...unlimited, ...denied })
  return refusedResponse(evaluation)
}

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  return /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]
}

function unauthorized(detail: string, challenge: string): GatewayResponse {
  return refusal(401, detail, ['www-authenticate', challenge])
}
