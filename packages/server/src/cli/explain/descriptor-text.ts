/** The output of `tidegate explain` for a call with a descriptor, by Envoy's files. */

import type { Limit } from 'tidegate'
import { amountOf } from './explain-text.ts'

/** The part of the response that is printed. */
export interface ShownEnvoy {
  readonly verdict: { readonly outcome: string; readonly reason: string }
  readonly switch: { readonly limits: string; readonly blocks: string }
  readonly descriptors: readonly ShownDescriptor[]
}

interface ShownDescriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[]
  readonly rule: string | null
  readonly block: { readonly id: string; readonly kind: string; readonly instead: string } | null
  readonly limit: Limit | null
  readonly source: string | null
  readonly override: string | null
  readonly instead: readonly string[]
}

export function descriptorLines(explained: ShownEnvoy, note: string): readonly string[] {
  const { verdict, switch: state, descriptors } = explained
  const isOn = state.limits === 'on' && state.blocks === 'on'
  return [
    `verdict: ${verdict.outcome}: ${verdict.reason}`,
    ...(isOn ? [] : [`switch: limits ${state.limits}, blocks ${state.blocks}`]),
    ...descriptors.flatMap(linesOf),
    '',
    `Live rules: on ${note}`,
  ]
}

function linesOf({ entries, rule, block, limit, source, override, instead }: ShownDescriptor) {
  const names = entries.map(({ key, value }) => (value === '' ? key : `${key}=${value}`))
  const amount = limit === null ? 'nothing is counted' : amountOf(limit)
  const losers = instead.map((one) => `the ${one}`).join(', ')
  const wins = instead.length === 0 ? '' : `; the ${source} ${override} wins over ${losers}`
  return [
    '',
    names.join(', '),
    `  rule: ${rule ?? 'none'}`,
    `  limit: ${amount}${wins}`,
    ...(block === null
      ? []
      : [`  block: by ${block.kind}, ${block.id}; wins over ${block.instead}`]),
  ]
}
