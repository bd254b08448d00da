/** `tidegate counter`: what a key has used of its limits, and changes of it. */

import { parseArgs } from 'node:util'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
import { ADMIN_HELP, AdminClient, changeOptions, WHY_HELP, whyOf } from './admin-client.ts'

const options = {
  ...changeOptions,
  name: { type: 'string' },
  units: { type: 'string' },
  within: { type: 'string', multiple: true },
  tier: { type: 'string' },
} as const

interface CounterShown {
  readonly limit: string
  readonly used: number
  readonly left: number
  readonly held: number | null
  readonly leased: number | null
  readonly resetAfterMs: number | null
  readonly shard: string | null
  readonly isCertain: boolean
}

export const counterCommand: Command = {
  name: 'counter',
  summary: 'Show, reset or refund what a key has used of its limits',
  help: `Usage: tidegate counter show KEY... [--name LIMIT] [OPTIONS]
       tidegate counter reset KEY... --name LIMIT --why TEXT
       tidegate counter refund KEY... --name LIMIT --units N --why TEXT

KEY has a word for each part of the key. show without --name looks under every limit with such a
key. With Envoy's files, LIMIT is a domain, and KEY has a word such as user=ada for each entry.

  --name LIMIT        The name of the limit
  --units N           Units to give back
  --within TEXT       A part of the outer key, if the limit lies within another; may be repeated
  --tier NAME         The tier of the caller. Default: the default tier
${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const [action, ...rest] = args
    const { values, positionals: key } = parseArgs({ args: rest, options, allowPositionals: true })
    if (action !== 'show' && action !== 'reset' && action !== 'refund') {
      throw new UsageError('allowed is: show, reset or refund')
    }
    if (key.length === 0) throw new UsageError('KEY is missing: a word for each part of the key')
    const { name, within, tier } = values
    if (action !== 'show' && name === undefined) throw new UsageError('--name LIMIT is missing')
    const body = {
      key,
      ...(name === undefined ? undefined : { limit: name }),
      ...(within === undefined ? undefined : { within }),
      ...(tier === undefined ? undefined : { tier }),
      ...(action === 'show' ? undefined : { why: whyOf(values.why) }),
      ...(action === 'refund' ? { units: unitsOf(values.units) } : undefined),
    }
    const client = new AdminClient(values, terminal)
    const path = action === 'show' ? 'look-up' : action
    const result = await client.call('POST', `/v1/counters/${path}`, body)
    const counters = (result.counters ?? [result.counter]) as readonly CounterShown[]
    const none = ['no limit has such a key']
    client.print(result, () => (counters.length === 0 ? none : counters.map(counterText)))
    return exitCodes.ok
  },
}

function unitsOf(text: string | undefined): number {
  if (text !== undefined && /^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError('--units N: allowed is a whole number from 1 to 999999999')
}

function counterText(counter: CounterShown): string {
  const { limit, used, left, held, leased, resetAfterMs, shard, isCertain } = counter
  const parts = [
    `${used} used`,
    `${left} left`,
    ...(held === null ? [] : [`${held} held`]),
    ...(leased === null || leased === 0 ? [] : [`${leased} of them leased by this node`]),
    ...(resetAfterMs === null || used === 0
      ? []
      : [`nothing used in ${Math.ceil(resetAfterMs / 1_000)} s`]),
    ...(shard === null ? [] : [`on ${shard}`]),
    ...(isCertain ? [] : ['the store does not answer, so this is a guess']),
  ]
  return `${limit}: ${parts.join(', ')}`
}
