/**
 * Finds out who asks, by API key, token and client certificate. What is wrong is refused with 401
 * whether it was needed or not: a caller who shows something means to be somebody.
 */

import type { AuthSection } from '../../policy/gateway-section.ts'
import type { Identity } from '../../policy/request-facts.ts'
import { type ApiKeys, digestOf } from '../auth/api-keys.ts'
import { certificateIdentity } from '../auth/certificate.ts'
import type { Tokens, TokenVerdict } from '../auth/tokens.ts'
import type { GatewayRequest, GatewayResponse, Handler, Stage } from '../message.ts'
import { refusal } from '../refusal.ts'

export interface Authenticators {
  readonly apiKeys: ApiKeys | undefined
  readonly tokens: Tokens | undefined
  readonly certificate: AuthSection['certificate']
}

const KEY_HEADER = 'x-api-key'

/** At most half a megabyte together. */
const DIGESTS_MAX = 1_024
const DIGESTED_LENGTH_MAX = 256

const KEY_CHALLENGE = 'ApiKey'
const TOKEN_CHALLENGE = 'Bearer'

type Parts = { -readonly [Part in keyof Identity]: Identity[Part] }

export function authenticate({ apiKeys, tokens, certificate }: Authenticators): Stage {
  const identifyKey = apiKeys === undefined ? byDigest() : byKnownKeys(apiKeys)
  return (request, next) => {
    const parts: Parts = {}
    const problem = identifyKey(request, parts)
    if (problem !== undefined) return problem
    const shown = request.connection.certificate
    if (shown !== undefined) parts.certificate = certificateIdentity(shown, certificate.identity)
    const goOn = () => {
      request.identity = parts
      return next(request)
    }
    return tokens === undefined ? goOn() : withToken(tokens, request, parts, goOn)
  }
}

/**
 * Without a list of keys, a key tells callers apart and proves nothing. Digests of keys in use are
 * remembered: in a flood, to compute them would be the largest part of a refusal.
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

function byKnownKeys(apiKeys: ApiKeys) {
  return (request: GatewayRequest, parts: Parts): GatewayResponse | undefined => {
    const key = request.header(apiKeys.header)
    if (key === undefined || key === '') {
      return apiKeys.isRequired ? unauthorized('An API key is needed.', KEY_CHALLENGE) : undefined
    }
    const known = apiKeys.find(key)
    if (known === undefined) return unauthorized('The API key is not known.', KEY_CHALLENGE)
    parts.apiKey = known.id
    if (known.organisation !== undefined) parts.organisation = known.organisation
    if (known.tier !== undefined) parts.tier = known.tier
    return undefined
  }
}

function withToken(
  tokens: Tokens,
  request: GatewayRequest,
  parts: Parts,
  goOn: () => ReturnType<Handler>,
): ReturnType<Handler> {
  const token = bearerOf(request.header('authorization'))
  if (token === undefined) {
    if (!tokens.isRequired) return goOn()
    return unauthorized('A bearer token is needed.', TOKEN_CHALLENGE)
  }
  const settle = (verdict: TokenVerdict) => {
    if (verdict === 'unavailable') {
      return refusal(503, 'Tokens cannot be checked at the moment.', ['retry-after', '1'])
    }
    if (verdict === 'invalid') {
      // https://www.rfc-editor.org/rfc/rfc6750#section-3.1
      return unauthorized('The token is not valid.', `${TOKEN_CHALLENGE} error="invalid_token"`)
    }
    Object.assign(parts, verdict)
    return goOn()
  }
  const verdict = tokens.verify(token)
  return verdict instanceof Promise ? verdict.then(settle) : settle(verdict)
}

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined) return undefined
  return /^bearer +([^ ]+) *$/i.exec(authorization)?.[1]
}

function unauthorized(detail: string, challenge: string): GatewayResponse {
  return refusal(401, detail, ['www-authenticate', challenge])
}
