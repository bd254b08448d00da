/** `tidegate regions`: the other regions, as a running node sees them. */

import { parseArgs } from 'node:util'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
import { ADMIN_HELP, AdminClient, adminOptions, noteOf } from './admin-client.ts'

interface ShownRegions {
  readonly self: string
  readonly peers: readonly ShownPeer[]
  readonly leasedKeys: number
  readonly leasedUnits: number
  readonly shared?: ShownExchange
}

interface ShownExchange {
  readonly isExchanger: boolean
  readonly keys: number
  readonly silent: readonly string[]
}

interface ShownPeer {
  readonly region: string
  readonly up: boolean
  readonly problem?: string
  readonly roundTripMs?: number
  readonly clockOffsetMs?: number
}

export const regionsCommand: Command = {
  name: 'regions',
  summary: 'The other regions: whether they answer, the round trip, the offset of their clocks',
  help: `Usage: tidegate regions status [OPTIONS]

Prints a line for each other region, as the node sees it. Exit code 1: a region does not answer.

${ADMIN_HELP}`,
  async run(args, terminal) {
    const options = { args: [...args], options: adminOptions, allowPositionals: true } as const
    const { values, positionals } = parseArgs(options)
    if (positionals.join(' ') !== 'status') throw new UsageError('allowed is: status')
    const client = new AdminClient(values, terminal)
    const result = await client.call('GET', '/v1/status')
    const regions = result.regions as ShownRegions | undefined
    client.print(result, () =>
      regions === undefined
        ? [`the policy has no regions, on ${noteOf(result)}`]
        : [...linesOf(regions), `on ${noteOf(result)}`],
    )
    const isWhole = regions?.peers.every(({ up }) => up) ?? true
    return isWhole ? exitCodes.ok : exitCodes.failed
  },
}

function linesOf({ self, peers, leasedKeys, leasedUnits, shared }: ShownRegions): string[] {
  return [
    `${self}: ${leasedUnits} units of ${leasedKeys} keys are leased from other regions`,
    ...(shared === undefined ? [] : [exchangeLine(self, shared)]),
    ...peers.map(peerLine),
  ]
}

function exchangeLine(self: string, { isExchanger, keys, silent }: ShownExchange): string {
  if (!isExchanger) return `${self}: another node exchanges the counts of shared limits`
  const missing = silent.length === 0 ? 'all regions count' : `${silent.join(', ')} do not count`
  return `${self}: this node exchanges the counts of ${keys} keys, and ${missing} them`
}

function peerLine({ region, up, problem, roundTripMs, clockOffsetMs }: ShownPeer): string {
  if (!up) return `${region}: does not answer: ${problem ?? 'unknown'}`
  const trip = roundTripMs === undefined ? 'unknown' : `${roundTripMs} ms`
  const offset = clockOffsetMs === undefined ? 'unknown' : `${clockOffsetMs} ms`
  return `${region}: answers, round trip ${trip}, clock ahead by ${offset}`
}
