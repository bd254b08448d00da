/**
 * Tries the limits of another policy on the traffic of the last minutes. Limits with the same name
 * and the same kind of key are replayed with both numbers; keys are a sample. Each second of a key
 * is replayed in steps, as a charge of the units that are left, so that a flood costs no more time
 * than a quiet client.
 */

import { isDeepStrictEqual } from 'node:util'
import { type Limit, manualClock, memoryStore } from 'tidegate'
import type { WhatIf, WhatIfLimit } from '../../admin/console/console-types.ts'
import { makeLimit } from '../../limits/compile/make-limit.ts'
import { durationText } from '../../limits/duration-text.ts'
import type { LimitSettings } from '../../limits/limit-settings.ts'
import {
  ARRIVAL_SECONDS,
  type KeyArrivals,
  type LimitArrivals,
} from '../../observability/traffic/key-arrivals.ts'

/** Steps of a second. */
const STEPS = 10
const STEP_MS = 1_000 / STEPS

/** Replays at most some seconds of the processor, in parts. */
const LIMITS_MAX = 50

const NEWLY_MAX = 14

type Limits = readonly LimitSettings[]

export interface WhatIfParts {
  readonly before: Limits
  readonly after: Limits
  arrivals(name: string): LimitArrivals
  /** The key as the caller may see it. */
  shownKey(limit: string, key: string): string
}

export async function whatIf(parts: WhatIfParts): Promise<WhatIf> {
  const { before, after } = parts
  const old = new Map(before.map((limit) => [limit.name, limit]))
  const names = new Set(after.map(({ name }) => name))
  const changed: WhatIfLimit[] = []
  let unchanged = 0
  for (const limit of after) {
    const known = old.get(limit.name)
    if (known === undefined) continue
    if (isDeepStrictEqual(known, limit)) unchanged += 1
    else if (changed.length < LIMITS_MAX) changed.push(await tried(known, limit, parts))
  }
  return {
    problems: [],
    seconds: ARRIVAL_SECONDS,
    limits: changed,
    added: after.filter(({ name }) => !old.has(name)).map(({ name }) => name),
    removed: before.filter(({ name }) => !names.has(name)).map(({ name }) => name),
    unchanged,
  }
}

async function tried(
  before: LimitSettings,
  after: LimitSettings,
  { arrivals, shownKey }: WhatIfParts,
): Promise<WhatIfLimit> {
  const { name, keysSeen, keys } = arrivals(after.name)
  const result = {
    ...{ name, keysSeen, keys: keys.length, asked: 0, deniedBefore: 0, deniedAfter: 0 },
    before: settingsText(before),
    after: settingsText(after),
  }
  const reason = whyNot(before, after, keys.length)
  if (reason !== null) return { ...result, newlyRefused: [], newlyRefusedKeys: 0, reason }
  const newly: { key: string; denied: number }[] = []
  for (const one of keys) {
    const numbers = numbersFor(before, after, one.limit)
    const asked = one.asked.reduce((sum, units) => sum + units, 0)
    const deniedBefore = refuses(before) ? replay(one, one.limit) : 0
    const deniedAfter = refuses(after) ? replay(one, numbers) : 0
    result.asked += asked
    result.deniedBefore += deniedBefore
    result.deniedAfter += deniedAfter
    if (deniedBefore === 0 && deniedAfter > 0) {
      newly.push({ key: shownKey(name, one.key), denied: deniedAfter })
    }
    // Requests go on between two keys.
    await new Promise(setImmediate)
  }
  const newlyRefused = newly.sort((one, other) => other.denied - one.denied).slice(0, NEWLY_MAX)
  return { ...result, newlyRefused, newlyRefusedKeys: newly.length, reason: null }
}

function whyNot(before: LimitSettings, after: LimitSettings, keys: number): string | null {
  if (!isDeepStrictEqual(before.key, after.key)) return 'it is counted by another key'
  if (!isDeepStrictEqual(before.match, after.match)) return 'it is for other requests'
  if (before.algorithm === 'concurrency' || after.algorithm === 'concurrency') {
    return 'requests at the same time cannot be replayed'
  }
  return keys === 0 ? 'there was no traffic' : null
}

function refuses({ mode }: LimitSettings): boolean {
  return mode === 'enforce'
}

/** The new numbers of the tier whose old ones the key has; an override of the key stays. */
function numbersFor(before: LimitSettings, after: LimitSettings, now: Limit): Limit {
  if (isDeepStrictEqual(makeLimit(before), now)) return makeLimit(after)
  for (const [tier, change] of Object.entries(before.tiers ?? {})) {
    if (isDeepStrictEqual(makeLimit(before, change), now)) {
      return makeLimit(after, after.tiers?.[tier])
    }
  }
  return now
}

/** Returns the units that would have been refused. */
function replay({ asked }: KeyArrivals, limit: Limit): number {
  const clock = manualClock()
  const store = memoryStore({ clock, keysMax: 16 })
  const counter = { name: 'replayed', key: 'key', limit }
  let denied = 0
  for (const units of asked) {
    for (let step = 0; step < STEPS; step += 1) {
      const part = Math.floor((units * (step + 1)) / STEPS) - Math.floor((units * step) / STEPS)
      if (part > 0) denied += part - granted(store, counter, part)
      clock.advance(STEP_MS)
    }
  }
  store.close()
  return denied
}

function granted(
  store: ReturnType<typeof memoryStore>,
  counter: { readonly name: string; readonly key: string; readonly limit: Limit },
  units: number,
): number {
  const [state] = store.charge([{ ...counter, cost: 0 }], 'peek')
  const taken = Math.min(units, Math.max(0, Math.floor(state?.remaining ?? 0)))
  if (taken > 0) store.charge([{ ...counter, cost: taken }], 'all')
  return taken
}

/** Such as `100 per 1m, burst 200, shadow`. */
export function settingsText(settings: LimitSettings, change = {}): string {
  const { limit, per, burst, ttl, mode, rollout } = { ...settings, ...change }
  const time = typeof per === 'number' ? durationText(per) : per
  return [
    `${limit}${time === undefined ? '' : ` per ${time}`}`,
    ...(burst === undefined ? [] : [`burst ${burst}`]),
    ...(ttl === undefined ? [] : [`at once, for ${durationText(ttl)} at most`]),
    ...(mode === 'enforce' ? [] : [mode]),
    ...(rollout >= 100 ? [] : [`${rollout} % of keys`]),
  ].join(', ')
}
