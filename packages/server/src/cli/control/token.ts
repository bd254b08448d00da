/** `tidegate token`: tokens for the admin API. */

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
  role: { type: 'string' },
} as const

interface TokenEntry {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly expires: string | null
  readonly lastUsed: string | null
}

export const tokenCommand: Command = {
  name: 'token',
  summary: 'Create, list or revoke tokens for the admin API',
  help: `Usage: tidegate token create --name NAME --role read|operate|admin [OPTIONS]
       tidegate token list
       tidegate token revoke ID --why TEXT

A token is printed once; the node keeps its SHA-256.

  --name NAME         The person or program that uses it
  --role ROLE         read: look at everything but keys. operate: overrides and blocks up to 24 h,
                      counters, rollback, shadow. admin: everything
${END_HELP}${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const [action, ...rest] = args
    const { values, positionals } = parseArgs({ args: rest, options, allowPositionals: true })
    if (action === 'create') return create(values, terminal)
    if (action === 'revoke') return revoke(values, positionals, terminal)
    if (action !== 'list') throw new UsageError('allowed is: create, list or revoke')
    const client = new AdminClient(values, terminal)
    const result = await client.call('GET', '/v1/tokens')
    const tokens = result.tokens as readonly TokenEntry[]
    client.print(result, () => [
      ...tokens.map(tokenText),
      `${count(tokens.length, 'token')}, on ${noteOf(result)}`,
    ])
    return exitCodes.ok
  },
}

type Values = ReturnType<typeof parseArgs<{ options: typeof options }>>['values']

async function create(values: Values, terminal: Terminal): Promise<number> {
  const { name, role } = values
  if (name === undefined || role === undefined) {
    throw new UsageError('--name NAME and --role ROLE are needed')
  }
  const body = { name, role, ...endOf(values), why: whyOf(values.why) }
  const client = new AdminClient(values, terminal)
  const result = await client.call('POST', '/v1/tokens', body)
  // The token alone on its line, so that a script can read it.
  client.print(result, () => [String(result.token)])
  const end = untilText(result.expires)
  terminal.stderr(`token ${result.id} with the role ${role}, ${end}; it is not shown again\n`)
  return exitCodes.ok
}

async function revoke(
  values: Values,
  positionals: readonly string[],
  terminal: Terminal,
): Promise<number> {
  const [id, ...others] = positionals
  if (id === undefined || others.length > 0) throw new UsageError('one ID is needed')
  const body = { id, why: whyOf(values.why) }
  const client = new AdminClient(values, terminal)
  const result = await client.call('POST', '/v1/tokens/revoke', body)
  client.print(result, () => [`token ${id} revoked, on ${noteOf(result)}`])
  return exitCodes.ok
}

function tokenText({ id, name, role, expires, lastUsed }: TokenEntry): string {
  const used = lastUsed === null ? 'not used here' : `last used here ${lastUsed}`
  return `${id} ${role.padEnd(7)} ${untilText(expires)}, ${used}: ${name}`
}
