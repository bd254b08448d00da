/** `tidegate block` and `tidegate unblock`: clients whose requests are refused, live. */

import { parseArgs } from 'node:util'
import { count } from '../count.ts'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
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
  answer: { type: 'string', default: '403' },
} as const

interface BlockEntry {
  readonly kind: string
  readonly value?: string
  readonly limit?: string
  readonly key?: readonly string[]
  readonly answer: number
  readonly expires: string | null
  readonly by: string
  readonly why: string
  readonly isExpired: boolean
}

const KINDS = `KIND is ip, cidr, user, apiKey, organisation or certificate, with one VALUE.
Or it is key, with --name LIMIT and a word for each part of the key.
`

export const blockCommand: Command = {
  name: 'block',
  summary: 'Refuse the requests of a client, live; block list lists them',
  help: `Usage: tidegate block KIND VALUE... [OPTIONS]
       tidegate block list

${KINDS}
  --name LIMIT        The name of the limit, for the kind key
  --answer STATUS     403 or 429. Default: 403
${END_HELP}${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    if (positionals[0] === 'list' && positionals.length === 1) {
      const client = new AdminClient(values, terminal)
      const result = await client.call('GET', '/v1/blocks')
      const blocks = result.blocks as readonly BlockEntry[]
      const last = `${count(blocks.length, 'block')}, on ${noteOf(result)}`
      client.print(result, () => [...blocks.map(blockText), last])
      return exitCodes.ok
    }
    const target = targetOf(positionals, values.name)
    const body = {
      ...target,
      answer: answerOf(values.answer),
      ...endOf(values),
      why: whyOf(values.why),
    }
    const client = new AdminClient(values, terminal)
    const result = await client.call('PUT', '/v1/blocks', body)
    const { expires } = result.entry as BlockEntry
    client.print(result, () => [
      `${target.kind} blocked ${untilText(expires)}, on ${noteOf(result)}`,
    ])
    return exitCodes.ok
  },
}

export const unblockCommand: Command = {
  name: 'unblock',
  summary: 'Remove a block',
  help: `Usage: tidegate unblock KIND VALUE... --why TEXT [OPTIONS]

${KINDS}
  --name LIMIT        The name of the limit, for the kind key
${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const target = targetOf(positionals, values.name)
    const body = { ...target, why: whyOf(values.why) }
    const client = new AdminClient(values, terminal)
    const result = await client.call('POST', '/v1/blocks/remove', body)
    client.print(result, () => [`${target.kind} no longer blocked, on ${noteOf(result)}`])
    return exitCodes.ok
  },
}

function targetOf([kind, ...rest]: readonly string[], name: string | undefined) {
  if (kind === undefined || rest.length === 0) throw new UsageError('KIND VALUE is missing')
  if (kind === 'key') return { kind, limit: name, key: rest }
  if (rest.length > 1) throw new UsageError(`${kind} has one VALUE`)
  return { kind, value: rest[0] }
}

function answerOf(text: string): number {
  if (text === '403' || text === '429') return Number(text)
  throw new UsageError(`--answer ${text}: allowed is 403 or 429`)
}

function blockText(block: BlockEntry): string {
  const { kind, value, limit, key, answer, expires, by, why, isExpired } = block
  const client = value ?? `${limit} ${key?.join(' ')}`
  const end = isExpired ? 'expired' : untilText(expires)
  return `${kind} ${client}: ${answer}, ${end}, by ${by}: ${why}`
}
