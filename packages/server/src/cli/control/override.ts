/** `tidegate override`: other numbers of a limit for one key, live. */

import { parseArgs } from 'node:util'
import { count } from '../count.ts'
import { type Command, exitCodes, type Terminal, UsageError } from '../terminal.ts'
import {
  ADMIN_HELP,
  AdminClient,
  changeOptions,
  END_HELP,
  endOf,
  endOptions,
  noteOf,
  untilText,
  WHY_HELP,
  whyOf,
} from './admin-client.ts'

const options = {
  ...changeOptions,
  ...endOptions,
  name: { type: 'string' },
  limit: { type: 'string' },
  per: { type: 'string' },
  burst: { type: 'string' },
  ttl: { type: 'string' },
} as const

interface OverrideEntry {
  readonly limit: string
  readonly key: readonly string[]
  readonly set: object
  readonly expires: string | null
  readonly by: string
  readonly why: string
  readonly isExpired: boolean
}

export const overrideCommand: Command = {
  name: 'override',
  summary: 'Set, list or remove other numbers of a limit for one key, live',
  help: `Usage: tidegate override set KEY... --name LIMIT --limit N [OPTIONS]
       tidegate override list
       tidegate override remove KEY... --name LIMIT --why TEXT

Gives a key other numbers of a limit, at once and without a change of the policy. KEY has a word
for each part of the key. With Envoy's files, LIMIT is a domain, and KEY has a word such as user=ada
for each entry of the descriptor.

  --name LIMIT        The name of the limit
  --limit N           Units; also --per TIME, --burst N, --ttl TIME
${END_HELP}${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const [action, ...rest] = args
    if (action === 'set') return set(rest, terminal)
    if (action === 'remove') return remove(rest, terminal)
    if (action === 'list') return list(rest, terminal)
    throw new UsageError('allowed is: set, list or remove')
  },
}

async function set(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const body = {
    ...targetOf(values.name, positionals),
    set: numbersOf(values),
    ...endOf(values),
    why: whyOf(values.why),
  }
  const client = new AdminClient(values, terminal)
  const result = await client.call('PUT', '/v1/overrides', body)
  const { expires } = result.entry as OverrideEntry
  client.print(result, () => [
    `override of ${body.limit} set ${untilText(expires)}, on ${noteOf(result)}`,
  ])
  return exitCodes.ok
}

async function remove(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const body = { ...targetOf(values.name, positionals), why: whyOf(values.why) }
  const client = new AdminClient(values, terminal)
  const result = await client.call('POST', '/v1/overrides/remove', body)
  client.print(result, () => [`override of ${body.limit} removed, on ${noteOf(result)}`])
  return exitCodes.ok
}

async function list(args: readonly string[], terminal: Terminal): Promise<number> {
  const { values } = parseArgs({ args: [...args], options })
  const client = new AdminClient(values, terminal)
  const result = await client.call('GET', '/v1/overrides')
  const entries = result.overrides as readonly OverrideEntry[]
  client.print(result, () => [
    ...entries.map((entry) => {
      const end = entry.isExpired ? 'expired' : untilText(entry.expires)
      const what = `${entry.limit} ${entry.key.join(' ')}: ${JSON.stringify(entry.set)}`
      return `${what}, ${end}, by ${entry.by}: ${entry.why}`
    }),
    `${count(entries.length, 'override')}, on ${noteOf(result)}`,
  ])
  return exitCodes.ok
}

function targetOf(name: string | undefined, key: readonly string[]) {
  if (name === undefined) throw new UsageError('--name LIMIT is missing: the name of the limit')
  if (key.length === 0) throw new UsageError('KEY is missing: a word for each part of the key')
  return { limit: name, key }
}

function numbersOf(values: Readonly<Partial<Record<'limit' | 'per' | 'burst' | 'ttl', string>>>) {
  const { limit, per, burst, ttl } = values
  const numbers = {
    ...(limit === undefined ? undefined : { limit: numberOf(limit, '--limit') }),
    ...(per === undefined ? undefined : { per }),
    ...(burst === undefined ? undefined : { burst: numberOf(burst, '--burst') }),
    ...(ttl === undefined ? undefined : { ttl }),
  }
  if (Object.keys(numbers).length > 0) return numbers
  throw new UsageError('--limit, --per, --burst or --ttl is missing')
}

function numberOf(text: string, option: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} ${text}: allowed is a whole number`)
}
