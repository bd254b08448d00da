/** `tidegate explain`: which limits are for a request, with which keys, and why not the others. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { decodeJwt } from 'jose'
import { type Limit, memoryStore } from 'tidegate'
import { parseIp } from 'tidegate/http'
import { SettingError } from '../environment.ts'
import { type ApiKeys, apiKeys, digestOf } from '../gateway/auth/api-keys.ts'
import { canonicalTarget } from '../gateway/canonical-path.ts'
import { createEnforcer } from '../policy/enforcer.ts'
import type { ExplainedLimit, Explanation } from '../policy/explain.ts'
import type { PolicyDocument } from '../policy/policy-schema.ts'
import type { Identity, RequestFacts } from '../policy/request-facts.ts'
import { secretReader } from '../policy/secrets.ts'
import { folderOf, readConfig } from './config.ts'
import { type Command, exitCodes, type Terminal, UsageError } from './terminal.ts'

const options = {
  config: { type: 'string' },
  method: { type: 'string', default: 'GET' },
  path: { type: 'string', default: '/' },
  header: { type: 'string', multiple: true, default: [] as string[] },
  ip: { type: 'string', default: '127.0.0.1' },
  user: { type: 'string' },
  organisation: { type: 'string' },
  tier: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

export const explainCommand: Command = {
  name: 'explain',
  summary: 'Which limits apply to a request, with which keys, and why the others do not',
  help: `Usage: tidegate explain --config FILE [OPTIONS]

Asks the policy about a request without sending or charging anything.

  --config FILE         The policy
  --method METHOD       Default: GET
  --path PATH           Default: /
  --header 'NAME: V'    A header field; may be given several times. The API key is looked up as the
                        gateway would; a bearer token is read, but not verified
  --ip ADDRESS          The client's address. Default: 127.0.0.1
  --user ID             As if a token had said so
  --organisation ID     As if a token or an API key had said so
  --tier NAME           As if an API key had said so
  --json                The same as JSON
`,
  async run(args, terminal) {
    const { values } = parseArgs({ args: [...args], options })
    if (values.config === undefined) throw new UsageError('--config FILE is missing')
    const { document, tierTable } = await readConfig(values.config, terminal)
    refuseUnknownTier(values.tier, document)
    const headers = headersOf(values.header)
    const identity: Identity = {
      ...identityOf(headers, document, folderOf(values.config), terminal),
      ...(values.user === undefined ? undefined : { user: values.user }),
      ...(values.organisation === undefined ? undefined : { organisation: values.organisation }),
      ...(values.tier === undefined ? undefined : { tier: values.tier }),
    }
    const facts = factsOf(values, headers, identity)
    const store = memoryStore()
    const enforcer = createEnforcer(document, {
      store,
      ...(tierTable === undefined ? undefined : { tierTable }),
    })
    const explanation = await enforcer.explain(facts)
    store.close()
    const text = values.json
      ? `${JSON.stringify(explanation, null, 2)}\n`
      : described(facts, explanation)
    terminal.print(text)
    return exitCodes.ok
  },
}

function refuseUnknownTier(tier: string | undefined, { tiers }: PolicyDocument): void {
  if (tier === undefined || tiers?.names.includes(tier) === true) return
  const allowed = tiers === undefined ? 'none, the policy has no tiers' : tiers.names.join(', ')
  throw new UsageError(`--tier ${tier}: allowed is ${allowed}`)
}

function factsOf(
  { method, path, ip }: { readonly method: string; readonly path: string; readonly ip: string },
  headers: ReadonlyMap<string, string>,
  identity: Identity,
): RequestFacts {
  const target = canonicalTarget(path, headers.get('host') ?? '')
  if (typeof target === 'string') throw new UsageError(`--path ${path}: ${target}`)
  const address = parseIp(ip)
  if (address === undefined) throw new UsageError(`--ip ${ip}: allowed is an IP address`)
  return {
    method: method.toUpperCase(),
    path: target.path,
    ip: address.text,
    identity,
    header: (name) => headers.get(name),
  }
}

function headersOf(lines: readonly string[]): ReadonlyMap<string, string> {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colonAt = line.indexOf(':')
    if (colonAt < 1) throw new UsageError(`--header ${line}: allowed is 'name: value'`)
    headers.set(line.slice(0, colonAt).trim().toLowerCase(), line.slice(colonAt + 1).trim())
  }
  return headers
}

function identityOf(
  headers: ReadonlyMap<string, string>,
  { auth }: PolicyDocument,
  folder: string,
  terminal: Terminal,
): Identity {
  const key = headers.get(auth.apiKeys?.header ?? 'x-api-key')
  const token = /^bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1]
  return {
    ...(key === undefined ? undefined : keyIdentity(key, auth.apiKeys, folder, terminal)),
    ...(token === undefined || auth.jwt === undefined ? undefined : tokenIdentity(token, auth.jwt)),
  }
}

function keyIdentity(
  key: string,
  section: PolicyDocument['auth']['apiKeys'],
  folder: string,
  terminal: Terminal,
): Identity {
  if (section === undefined) return { apiKey: digestOf(key) }
  const known = knownKeys(section, folder, terminal).find(key)
  if (known === undefined) throw new SettingError('the API key is not known: the answer is 401')
  const { id, organisation, tier } = known
  return {
    apiKey: id,
    ...(organisation === undefined ? undefined : { organisation }),
    ...(tier === undefined ? undefined : { tier }),
  }
}

/** As the gateway reads them; what is wrong with them is said without a trace. */
function knownKeys(
  section: NonNullable<PolicyDocument['auth']['apiKeys']>,
  folder: string,
  terminal: Terminal,
): ApiKeys {
  try {
    const readSecret = secretReader(terminal.environment, folder)
    const secret = readSecret(section.secret, 'auth.apiKeys.secret')
    return apiKeys(readFileSync(resolve(folder, section.file), 'utf8'), { ...section, secret })
  } catch (error) {
    throw new SettingError((error as Error).message)
  }
}

function tokenIdentity(
  token: string,
  { organisationClaim, tierClaim }: NonNullable<PolicyDocument['auth']['jwt']>,
): Identity {
  try {
    const claims = decodeJwt(token)
    const organisation = claims[organisationClaim]
    const tier = tierClaim === undefined ? undefined : claims[tierClaim]
    return {
      claims,
      ...(claims.sub === undefined ? undefined : { user: claims.sub }),
      ...(typeof organisation === 'string' ? { organisation } : undefined),
      ...(typeof tier === 'string' ? { tier } : undefined),
    }
  } catch {
    throw new SettingError('the bearer token cannot be read: the answer is 401')
  }
}

function described(facts: RequestFacts, explanation: Explanation): string {
  const { ip, tier, isEnabled, limits } = explanation
  const lines = [`${facts.method} ${facts.path} from ${facts.ip}`]
  if (!isEnabled) lines.push('The policy is turned off: everything is admitted.')
  if (ip === 'deny') lines.push('The address is on the deny list: 403.')
  if (ip === 'allow') lines.push('The address is on the allow list: no limit is asked.')
  if (tier !== undefined) lines.push(`tier: ${tier}`)
  const applied = limits.filter(({ applies }) => applies)
  const others = limits.filter(({ applies }) => !applies)
  lines.push('', applied.length === 0 ? 'No limit applies.' : 'These apply, in this order:')
  for (const limit of applied) lines.push(...appliedLines(limit))
  if (others.length > 0) lines.push('', 'These do not:')
  for (const limit of others) if (!limit.applies) lines.push(`  ${limit.name}: ${limit.reason}`)
  return `${lines.join('\n')}\n`
}

function appliedLines(limit: ExplainedLimit): string[] {
  if (!limit.applies) return []
  const mode = limit.mode === 'enforce' ? '' : ` (${limit.mode})`
  const fallback = limit.isFallback ? ', because the first kind of key is missing' : ''
  const source = { limit: '', tier: ', of the tier', override: ', of an override' }[limit.source]
  return [
    `  ${limit.name}${mode}: ${amountOf(limit.limit)}${source}; costs ${limit.cost}`,
    `    key ${limit.keyKind}: ${limit.key}${fallback}`,
    ...(limit.within === undefined ? [] : [`    within: ${limit.within}`]),
  ]
}

function amountOf(limit: Limit): string {
  switch (limit.algorithm) {
    case 'tokenBucket':
      return `${limit.limit} per ${limit.perMs} ms, burst ${limit.burst} (tokenBucket)`
    case 'fixedWindow': {
      const per = typeof limit.per === 'number' ? `${limit.per} ms` : `${limit.per.unit}`
      return `${limit.limit} per ${per} (fixedWindow)`
    }
    case 'concurrency':
      return `${limit.limit} at once (concurrency)`
    default:
      return `${limit.limit} per ${limit.perMs} ms (${limit.algorithm})`
  }
}
