/** Evaluates a policy for one request, without sending or charging anything. */

import { decodeJwt } from 'jose'
import { memoryStore } from 'tidegate'
import { parseIp } from 'tidegate/http'
import { type ReadSecret, secretReader } from '../../config/secrets.ts'
import { type ApiKeys, apiKeys, digestOf } from '../../gateway/auth/api-keys.ts'
import { identityOf as claimedIdentity } from '../../gateway/auth/tokens.ts'
import { canonicalTarget } from '../../gateway/canonical-path.ts'
import { createEnforcer, type Enforcer } from '../../limits/enforcer.ts'
import type { Identity, RequestFacts } from '../../limits/request-facts.ts'
import type { KeyTable } from '../../policy/api-keys/key-table.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'
import { type Environment, SettingError } from '../environment.ts'
import type { PolicyConfig, ServicePolicy } from '../policy-config.ts'
import { type ExplainedRequest, explainRequest } from './explain-request.ts'

export interface ExplainInput {
  readonly method: string
  readonly path: string
  readonly ip: string
  /** By their lower-case names. */
  readonly headers: ReadonlyMap<string, string>
  /** Parts of the identity that replace those of the headers. */
  readonly identity: Pick<Identity, 'user' | 'organisation' | 'tier'>
}

export interface PolicyExplanation {
  readonly facts: RequestFacts
  readonly explained: ExplainedRequest
}

/** A field of the input is invalid; the message begins with its name and value. */
export class InputError extends Error {}

/** Throws InputError, or SettingError if the credentials cannot be used. */
export async function explainPolicy(
  { policy, folder }: PolicyConfig,
  environment: Environment,
  input: ExplainInput,
): Promise<PolicyExplanation> {
  const { document, tierTable } = policy.value
  const store = memoryStore()
  const enforcer = createEnforcer(document, {
    store,
    ...(tierTable === undefined ? undefined : { tierTable }),
  })
  const readSecret = secretReader(environment, folder)
  const explanation = await explainLive({ policy, readSecret, enforcer }, input)
  store.close()
  return explanation
}

export interface LiveParts {
  readonly policy: ServicePolicy
  readonly readSecret: ReadSecret
  readonly enforcer: Enforcer
}

/** Explains a request by the rules and the counters of an enforcer, and charges nothing. */
export async function explainLive(
  { policy: { value }, readSecret, enforcer }: LiveParts,
  input: ExplainInput,
): Promise<PolicyExplanation> {
  const { document } = value
  refuseUnknownTier(input.identity.tier, document)
  const identity: Identity = {
    ...identityOf(input.headers, value, readSecret),
    ...input.identity,
  }
  const facts = factsOf(input, identity)
  const host = input.headers.get('host') ?? ''
  const explained = await explainRequest({ ...facts, host }, document, enforcer)
  return { facts, explained }
}

function refuseUnknownTier(tier: string | undefined, { tiers }: PolicyDocument): void {
  if (tier === undefined || tiers?.names.includes(tier) === true) return
  const allowed = tiers === undefined ? 'none, the policy has no tiers' : tiers.names.join(', ')
  throw new InputError(`tier ${tier}: allowed is ${allowed}`)
}

function factsOf({ method, path, ip, headers }: ExplainInput, identity: Identity): RequestFacts {
  const target = canonicalTarget(path, headers.get('host') ?? '')
  if (typeof target === 'string') throw new InputError(`path ${path}: ${target}`)
  const address = parseIp(ip)
  if (address === undefined) throw new InputError(`ip ${ip}: allowed is an IP address`)
  return {
    method: method.toUpperCase(),
    path: target.path,
    ip: address.text,
    identity,
    header: (name) => headers.get(name),
  }
}

function identityOf(
  headers: ReadonlyMap<string, string>,
  { document: { auth }, keyTable }: ServicePolicy['value'],
  readSecret: ReadSecret,
): Identity {
  const key = headers.get(auth.apiKeys?.header ?? 'x-api-key')
  const token = /^bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1]
  return {
    ...(key === undefined ? undefined : keyIdentity(key, auth.apiKeys, keyTable, readSecret)),
    ...(token === undefined || auth.jwt === undefined ? undefined : tokenIdentity(token, auth.jwt)),
  }
}

function keyIdentity(
  key: string,
  section: PolicyDocument['auth']['apiKeys'],
  table: KeyTable | undefined,
  readSecret: ReadSecret,
): Identity {
  if (section === undefined || table === undefined) return { apiKey: digestOf(key) }
  const known = knownKeys(table, section, readSecret).find(key)
  if (known === undefined) throw new SettingError('the API key is not known: the response is 401')
  const { id, organisation, tier } = known
  return {
    apiKey: id,
    ...(organisation === undefined ? undefined : { organisation }),
    ...(tier === undefined ? undefined : { tier }),
  }
}

/** Reads the keys as the gateway does; problems become one line without a stack trace. */
function knownKeys(
  table: KeyTable,
  section: NonNullable<PolicyDocument['auth']['apiKeys']>,
  readSecret: ReadSecret,
): ApiKeys {
  try {
    const secret = readSecret(section.secret, 'auth.apiKeys.secret')
    return apiKeys(table, { ...section, secret })
  } catch (error) {
    throw new SettingError((error as Error).message)
  }
}

function tokenIdentity(
  token: string,
  section: NonNullable<PolicyDocument['auth']['jwt']>,
): Identity {
  const identity = claimsIdentity(token, section)
  if (identity !== undefined) return identity
  throw new SettingError('the bearer token cannot be read: the response is 401')
}

function claimsIdentity(
  token: string,
  section: NonNullable<PolicyDocument['auth']['jwt']>,
): Identity | undefined {
  try {
    return claimedIdentity(decodeJwt(token), section)
  } catch {
    return undefined
  }
}
