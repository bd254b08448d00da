/** The overrides of a policy document. */

import type { Limit } from 'tidegate'
import type { OverrideSettings } from '../limit-settings.ts'
import { makeLimit } from './make-limit.ts'
import { noOverrides, type Overrides } from './overrides.ts'
import type { RequestLimit } from './request-limit.ts'

/** Returns the wall clock in milliseconds. */
export type Now = () => number

interface Override {
  readonly limit: Limit
  readonly expiresAt: number
}

export function documentOverrides(
  overrides: readonly OverrideSettings[],
  limits: ReadonlyMap<string, RequestLimit>,
  now: Now,
): Overrides {
  const byLimit = new Map<string, Map<string, Override>>()
  for (const { limit: name, key, set, expires = Infinity } of overrides) {
    const limit = limits.get(name)
    if (limit === undefined) continue
    const byKey = byLimit.get(name) ?? new Map<string, Override>()
    byLimit.set(name, byKey)
    const text = limit.key.alternatives[0]?.fromParts(key) ?? ''
    byKey.set(text, { limit: makeLimit(limit.settings, set), expiresAt: expires })
  }
  if (byLimit.size === 0) return noOverrides
  return {
    overrideFor(limitName, key) {
      const override = byLimit.get(limitName)?.get(key)
      return override === undefined || override.expiresAt <= now() ? undefined : override.limit
    },
  }
}
