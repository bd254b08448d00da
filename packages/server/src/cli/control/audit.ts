/** `tidegate audit`: the record of operators' attempts. */

import { parseArgs } from 'node:util'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
import { ADMIN_HELP, AdminClient, adminOptions } from './admin-client.ts'

const filters = [
  'actor',
  'action',
  'target',
  'result',
  'since',
  'until',
  'before',
  'count',
] as const

const options = {
  ...adminOptions,
  actor: { type: 'string' },
  action: { type: 'string' },
  target: { type: 'string' },
  result: { type: 'string' },
  since: { type: 'string' },
  until: { type: 'string' },
  before: { type: 'string' },
  count: { type: 'string' },
} as const

interface RecordShown {
  readonly id: number
  readonly at: string
  readonly actor: { readonly name: string; readonly role: string }
  readonly action: string
  readonly target: Readonly<Record<string, string>>
  readonly result: string
  readonly after?: unknown
  readonly reason?: string
  readonly leftOut?: number
}

export const auditCommand: Command = {
  name: 'audit',
  summary: 'List, export or verify the record of changes',
  help: `Usage: tidegate audit [list|export|verify] [OPTIONS]

list prints the latest records first. export prints them as NDJSON. verify checks that no record is
missing or changed; its exit code is 1 if one is.

  --actor NAME        The id or name of the author
  --action NAME       Such as override.set, or override
  --target TEXT       The type, id, limit or key digest of the target
  --result RESULT     done, refused, conflict or denied
  --since TIME        Such as 2026-12-01T00:00:00Z; also --until TIME
  --before ID         Records before this one; --count N prints at most N, default 100
${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const [action = 'list', ...others] = positionals
    if (others.length > 0 || !['list', 'export', 'verify'].includes(action)) {
      throw new UsageError('allowed is: list, export or verify')
    }
    const client = new AdminClient(values, terminal)
    if (action === 'verify') {
      const result = await client.call('GET', '/v1/audit/verify')
      client.print(result, () => [verdictText(result)])
      return result.ok === true ? exitCodes.ok : exitCodes.failed
    }
    const query = new URLSearchParams()
    for (const name of filters) {
      const value = values[name]
      if (value !== undefined) query.set(name, value)
    }
    if (action === 'export') {
      terminal.stdout(await client.text('GET', `/v1/audit/export?${query}`))
      return exitCodes.ok
    }
    const result = await client.call('GET', `/v1/audit?${query}`)
    const records = result.records as readonly RecordShown[]
    client.print(result, () => (records.length === 0 ? ['no records'] : records.map(recordText)))
    return exitCodes.ok
  },
}

function verdictText(result: Readonly<Record<string, unknown>>): string {
  const { ok, records, first, last, at, problem } = result
  if (ok === true) return `the audit is whole: ${records} records, from ${first} to ${last}`
  return `the audit is damaged at record ${at}: ${problem}`
}

function recordText(record: RecordShown): string {
  const { id, at, actor, action, target, reason, leftOut } = record
  const what = Object.values(target).join(' ')
  const more = leftOut === undefined ? '' : ` (${leftOut} more were left out)`
  const why = reason === undefined ? '' : `: ${reason}`
  const result = resultText(record)
  return `${id} ${at} ${actor.name} (${actor.role}) ${action} ${what} ${result}${more}${why}`
}

/** A refused request has the status of its response. Its message may have keys of customers. */
function resultText({ result, after }: RecordShown): string {
  if (result === 'done' || typeof after !== 'object' || after === null) return result
  return 'status' in after ? `${result} with status ${after.status}` : result
}
