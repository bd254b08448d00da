/**
 * Regions that operators have given up, as the control store keeps them: one small JSON text for
 * each. A text that does not fit is left out.
 */

import { z } from 'zod'
import { name } from '../../policy/schema/field-types.ts'
import type { Snapshot } from '../key-value.ts'
import { actorName, reason } from '../plain-text.ts'

export const FORGOTTEN_PREFIX = 'regions/forgotten/'

const time = z.iso.datetime({ offset: true })

export const storedForgotten = z.strictObject({
  region: name,
  by: actorName,
  at: time,
  why: reason,
})

export type StoredForgotten = z.output<typeof storedForgotten>

export function forgottenKey(region: string): string {
  return `${FORGOTTEN_PREFIX}${encodeURIComponent(region)}`
}

/** `ageMs` is by the wall clocks of two nodes, which should agree. */
export function forgottenIn(
  { entries }: Snapshot,
  nowMs: number,
): readonly { readonly name: string; readonly ageMs: number }[] {
  return entries.flatMap(({ value }) => {
    const { data } = storedForgotten.safeParse(parsed(value))
    return data === undefined ? [] : [{ name: data.region, ageMs: nowMs - Date.parse(data.at) }]
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
