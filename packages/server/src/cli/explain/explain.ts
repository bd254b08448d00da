/** `tidegate explain`: the outcome of a request, the limits that apply, and why others do not. */

import { parseArgs } from 'node:util'
import { type ExplainInput, explainPolicy, InputError } from '../../app/explain/explain-policy.ts'
import type { ExplainedRequest } from '../../app/explain/explain-request.ts'
import { type PolicyConfig, readPolicyConfig } from '../../app/policy-config.ts'
import type { RequestFacts } from '../../limits/request-facts.ts'
import { regionBounds } from '../../policy/regions/region-bounds.ts'
import {
  ADMIN_HELP,
  AdminClient,
  type AdminValues,
  adminOptions,
  noteOf,
} from '../control/admin-client.ts'
import { type Command, exitCodes, type Terminal, UsageError } from '../terminal.ts'
import { descriptorLines, type ShownEnvoy } from './descriptor-text.ts'
import { explainText } from './explain-text.ts'

const options = {
  config: { type: 'string' },
  method: { type: 'string', default: 'GET' },
  path: { type: 'string', default: '/' },
  header: { type: 'string', multiple: true, default: [] as string[] },
  ip: { type: 'string', default: '127.0.0.1' },
  user: { type: 'string' },
  organisation: { type: 'string' },
  organization: { type: 'string' },
  tier: { type: 'string' },
  domain: { type: 'string' },
  entry: { type: 'string', multiple: true },
  ...adminOptions,
} as const

export const explainCommand: Command = {
  name: 'explain',
  summary: 'The outcome of a request: its route, the limits that apply, and why others do not',
  help: `Usage: tidegate explain --config FILE [OPTIONS]
       tidegate explain --admin URL [OPTIONS]

Evaluates the policy for a request without sending or charging anything. With --config the outcome
is that of a caller that has used nothing yet. With --admin it is that of a running node, with its
counters, overrides, blocks and switch, and the output names the rules that win and those that lose.

  --config FILE         The policy
  --method METHOD       Default: GET
  --path PATH           Default: /
  --header 'NAME: V'    A header field; may be given several times. The API key is looked up as in
                        the gateway; a bearer token is read, but not verified
  --ip ADDRESS          The client's address. Default: 127.0.0.1
  --user ID             The user, as from a token
  --organisation ID     The organisation, as from a token or an API key; also --organization
  --tier NAME           The tier, as from an API key
  --domain NAME         With Envoy's files: the domain of the call
  --entry KEY=VALUE     With --domain: an entry of its descriptor; may be given several times

${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values } = parseArgs({ args: [...args], options })
    if (values.admin !== undefined) return explainNode(values, terminal)
    if (values.config === undefined) {
      throw new UsageError('--config FILE is missing, or --admin URL for a running node')
    }
    if (values.domain !== undefined || values.entry !== undefined) {
      throw new UsageError('--domain, --entry: only with --admin')
    }
    const config = await readPolicyConfig(values.config, terminal.environment)
    const input = { ...values, headers: headersOf(values.header), identity: identityOf(values) }
    const { facts, explained } = await explainPolicy(config, terminal.environment, input).catch(
      (error: unknown) => {
        throw error instanceof InputError ? new UsageError(`--${error.message}`) : error
      },
    )
    const text = values.json
      ? `${JSON.stringify(explained, null, 2)}\n`
      : explainText(facts, explained) + regionsText(config, explained)
    terminal.stdout(text)
    return exitCodes.ok
  },
}

/** The guarantees of the limits that apply and that regions share. */
function regionsText({ policy }: PolicyConfig, { limits }: ExplainedRequest): string {
  const applied = new Set(limits.filter(({ applies }) => applies).map(({ name }) => name))
  const bounds = regionBounds(policy.value.document).filter(({ limit }) => applied.has(limit))
  if (bounds.length === 0) return ''
  return `\nIn all regions:\n${bounds.map(({ text }) => `  ${text}\n`).join('')}`
}

type ExplainValues = AdminValues &
  IdentityOptions & {
    readonly method: string
    readonly path: string
    readonly ip: string
    readonly header: readonly string[]
    readonly domain?: string
    readonly entry?: readonly string[]
  }

/** Asks a running node. */
async function explainNode(values: ExplainValues, terminal: Terminal): Promise<number> {
  const { method, path, ip, domain, entry } = values
  const client = new AdminClient(values, terminal)
  if (domain !== undefined) {
    const body = { domain, descriptors: [entry ?? []] }
    const result = await client.call('POST', '/v1/explain', body)
    client.print(result, () => descriptorLines(result as unknown as ShownEnvoy, noteOf(result)))
    return exitCodes.ok
  }
  const headers = Object.fromEntries(headersOf(values.header))
  const body = { method, path, ip, headers, identity: identityOf(values) }
  const result = await client.call('POST', '/v1/explain', body)
  const facts = result.request as Pick<RequestFacts, 'method' | 'path' | 'ip'>
  const explained = result as unknown as ExplainedRequest
  client.print(result, () => [
    ...explainText(facts, explained).trimEnd().split('\n'),
    '',
    `Live rules: on ${noteOf(result)}`,
  ])
  return exitCodes.ok
}

interface IdentityOptions {
  readonly user?: string
  readonly organisation?: string
  readonly organization?: string
  readonly tier?: string
}

function identityOf(values: IdentityOptions): ExplainInput['identity'] {
  const { user, tier } = values
  const organisation = values.organisation ?? values.organization
  return {
    ...(user === undefined ? undefined : { user }),
    ...(organisation === undefined ? undefined : { organisation }),
    ...(tier === undefined ? undefined : { tier }),
  }
}

function headersOf(lines: readonly string[]): ReadonlyMap<string, string> {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colonAt = line.indexOf(':')
    if (colonAt < 1) throw new UsageError(`--header: allowed is 'name: value'`)
    headers.set(line.slice(0, colonAt).trim().toLowerCase(), line.slice(colonAt + 1).trim())
  }
  return headers
}
