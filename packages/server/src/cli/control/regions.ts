/** `tidegate regions`: the other regions, as a running node sees them, and to give one up. */

import { parseArgs } from 'node:util'
import { type Command, exitCodes, UsageError } from '../terminal.ts'
import { ADMIN_HELP, AdminClient, changeOptions, noteOf, WHY_HELP, whyOf } from './admin-client.ts'

interface ShownRegions {
  readonly self: string
  readonly peers: readonly ShownPeer[]
  readonly forgotten?: readonly string[]
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
       tidegate regions forget NAME --why TEXT [OPTIONS]
       tidegate regions remember NAME --why TEXT [OPTIONS]

status prints a line for each other region, as the node sees it. Exit code 1: a region is cut
off. forget gives up a region that is lost for good: its keys get another home once the units
that it granted have expired. remember ends that, after the region has left the list. Without a
control store for all nodes, run both on every node.

${WHY_HELP}${ADMIN_HELP}`,
  async run(args, terminal) {
    const options = { args: [...args], options: changeOptions, allowPositionals: true } as const
    const { values, positionals } = parseArgs(options)
    const [action, region, ...more] = positionals
    const client = new AdminClient(values, terminal)
    if (action === 'status' && region === undefined) return showStatus(client)
    const call = changes[action ?? '']
    if (call === undefined || region === undefined || more.length > 0) {
      throw new UsageError('allowed is: status, forget NAME or remember NAME')
    }
    const result = await client.call(call.method, call.path, { region, why: whyOf(values.why) })
    client.print(result, () => [`${region}: ${call.done}, on ${noteOf(result)}`])
    return exitCodes.ok
  },
}

const changes: Readonly<
  Record<string, { readonly method: string; readonly path: string; readonly done: string }>
> = {
  forget: {
    method: 'PUT',
    path: '/v1/regions/forgotten',
    done: 'forgotten; its keys get another home after their windows',
  },
  remember: {
    method: 'POST',
    path: '/v1/regions/forgotten/remove',
    done: 'no longer forgotten, and it can be added to the list again',
  },
}

async function showStatus(client: AdminClient): Promise<number> {
  const result = await client.call('GET', '/v1/status')
  const regions = result.regions as ShownRegions | undefined
  client.print(result, () =>
    regions === undefined
      ? [`the policy has no regions, on ${noteOf(result)}`]
      : [...linesOf(regions), `on ${noteOf(result)}`],
  )
  const isWhole = regions?.peers.every(({ up }) => up) ?? true
  return isWhole ? exitCodes.ok : exitCodes.failed
}

function linesOf({ self, peers, forgotten = [], ...rest }: ShownRegions): string[] {
  const { leasedKeys, leasedUnits, shared } = rest
  return [
    `${self}: ${leasedUnits} units of ${leasedKeys} keys are leased from other regions`,
    ...(shared === undefined ? [] : [exchangeLine(self, shared)]),
    ...peers.map((peer) => {
      const line = peerLine(peer)
      return forgotten.includes(peer.region) ? `${line}; it is forgotten` : line
    }),
  ]
}

function exchangeLine(self: string, { isExchanger, keys, silent }: ShownExchange): string {
  if (!isExchanger) return `${self}: another node exchanges the counts of shared limits`
  const missing = silent.length === 0 ? 'all regions count' : `${silent.join(', ')} do not count`
  return `${self}: this node exchanges the counts of ${keys} keys, and ${missing} them`
}

function peerLine({ region, up, problem, roundTripMs, clockOffsetMs }: ShownPeer): string {
  if (!up) return `${region}: cut off: ${problem ?? 'unknown'}`
  const trip = roundTripMs === undefined ? 'unknown' : `${roundTripMs} ms`
  const offset = clockOffsetMs === undefined ? 'unknown' : `${clockOffsetMs} ms`
  return `${region}: answers, round trip ${trip}, clock ahead by ${offset}`
}
