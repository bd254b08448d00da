/**
 * `tidegate top`: requests by outcome, decision time and the keys that are refused most, every
 * second. A terminal is drawn again; another output gets plain lines.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { escapeUnsafe } from '../../control/plain-text.ts'
import { type Command, exitCodes, type Terminal, UsageError } from '../terminal.ts'
import { ADMIN_HELP, AdminClient, adminOptions } from './admin-client.ts'

const options = { ...adminOptions, count: { type: 'string' } } as const

const EVERY_MS = 1_000

/** Keys that fit on a screen. */
const KEYS_MAX = 15

const COUNT_MAX = 1_000_000

/** Columns of a client; longer texts are cut. */
const KEY_COLUMNS = 40

/** https://www.xfree86.org/current/ctlseqs.html: moves to the top and clears the screen. */
const CLEAR = '\u001b[H\u001b[2J'

/** The fields of `GET /v1/now` that are shown. */
interface Now {
  readonly atMs: number
  readonly traffic: Readonly<Record<string, number | null>>
  readonly state: { readonly policyVersion: string; readonly limits: number }
  readonly store: { readonly kind: string; readonly isConnected: boolean }
  readonly switch: { readonly limits: string; readonly until: string | null }
  readonly nodes: readonly { readonly state: string }[]
  readonly top: { readonly refused: readonly Refused[] }
}

interface Refused {
  readonly limit: string
  readonly key: string
  readonly count: number
  readonly deniedPerSecond: number | null
}

export const topCommand: Command = {
  name: 'top',
  summary: 'Watch requests, decision time and the clients that are refused most',
  help: `Usage: tidegate top [--count N] [OPTIONS]

Shows one node, every second, until Ctrl+C. Output that is not a terminal gets plain lines.
Keys are shown from the role operate on, else digests of them.

  --count N           Stop after N seconds
${ADMIN_HELP}`,
  async run(args, terminal) {
    const { values } = parseArgs({ args: [...args], options })
    const count = secondsOf(values.count)
    const client = new AdminClient(values, terminal)
    for (let at = 0; at < count; at += 1) {
      if (at > 0) await sleep(EVERY_MS)
      const now = (await client.call('GET', '/v1/now')) as unknown as Now
      if (values.json) terminal.stdout(`${JSON.stringify(now)}\n`)
      else show(now, terminal)
    }
    return exitCodes.ok
  },
}

function secondsOf(text: string | undefined): number {
  if (text === undefined) return Infinity
  const count = Number(text)
  if (Number.isSafeInteger(count) && count >= 1 && count <= COUNT_MAX) return count
  throw new UsageError(`--count ${text}: allowed is a whole number from 1 to ${COUNT_MAX}`)
}

function show(now: Now, terminal: Terminal): void {
  if (terminal.isInteractive !== true) {
    terminal.stdout(`${escapeUnsafe(lineOf(now))}\n`)
    return
  }
  terminal.stdout(`${CLEAR}${escapeUnsafe(screenOf(now).join('\n'))}\n`)
}

/** One line, for logs and pipes. */
function lineOf({ atMs, traffic, top }: Now): string {
  const [first] = top.refused
  const { allowed, denied, blocked, unavailable, shed, degraded } = traffic
  return [
    new Date(atMs).toISOString(),
    `allowed=${allowed}/s denied=${denied}/s blocked=${blocked}/s unavailable=${unavailable}/s`,
    `shed=${shed}/s degraded=${degraded}/s p50=${ms(traffic.p50Ms)} p99=${ms(traffic.p99Ms)}`,
    ...(first === undefined ? [] : [`refused_most=${first.limit}:${JSON.stringify(first.key)}`]),
  ].join(' ')
}

function screenOf(now: Now): readonly string[] {
  const { traffic, state, store, top, nodes } = now
  const cell = (name: string, value: string) => `${name} ${value.padStart(9)}`
  const rate = (field: string) => `${traffic[field] ?? 0}/s`
  const applied = nodes.filter((node) => node.state === 'applied').length
  const rows = top.refused.slice(0, KEYS_MAX).map(({ key, limit, deniedPerSecond, count }) => {
    const shown = key.length > KEY_COLUMNS ? `${key.slice(0, KEY_COLUMNS - 1)}…` : key
    const refused = deniedPerSecond === null ? '-' : `${deniedPerSecond}/s`
    return rowOf(shown, limit, refused, String(count))
  })
  const time = new Date(now.atMs).toISOString()
  const contact = store.isConnected ? 'connected' : 'AWAY'
  return [
    `tidegate top  ${time}  policy ${state.policyVersion}, ${state.limits} limits`,
    `${store.kind}: ${contact}; ${applied} of ${nodes.length} nodes applied`,
    ...switchLines(now),
    '',
    [cell('allowed', rate('allowed')), cell('refused', rate('denied'))].join('   '),
    [cell('blocked', rate('blocked')), cell('degraded', rate('degraded'))].join('   '),
    [cell('shed', rate('shed')), cell('unavailable', rate('unavailable'))].join('   '),
    `decision  p50 ${ms(traffic.p50Ms)}  p99 ${ms(traffic.p99Ms)}`,
    '',
    rowOf('REFUSED MOST', 'LIMIT', 'REFUSED', 'IN ALL'),
    ...(rows.length === 0 ? ['no client was refused in the last minutes'] : rows),
  ]
}

function rowOf(key: string, limit: string, refused: string, count: string): string {
  const numbers = `${refused.padStart(9)}${count.padStart(10)}`
  return `${key.padEnd(KEY_COLUMNS)}  ${limit.padEnd(20)}${numbers}`
}

function switchLines({ switch: { limits, until } }: Now): readonly string[] {
  const end = until === null ? '' : ` until ${until}`
  return limits === 'on' ? [] : [`THE SWITCH IS ${limits.toUpperCase()}${end}`]
}

function ms(value: number | null | undefined): string {
  return value === null || value === undefined ? '-' : `${value.toFixed(value < 10 ? 2 : 0)}ms`
}
