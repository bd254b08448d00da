/** From the settings of a limit, with the changes of a tier or an override, to a `Limit`. */

import {
  type CalendarUnit,
  concurrency,
  type Duration,
  fixedWindow,
  type Limit,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from 'tidegate'
import type { LimitChange, LimitSettings } from '../limit-settings.ts'

type NumberSettings = LimitChange &
  Pick<
    LimitSettings,
    'algorithm' | 'limit' | 'timeZone' | 'onStoreError' | 'onOverload' | 'accuracy'
  >

/** Throws a `TidegateError` with the path of the option, such as `tokenBucket.burst`. */
export function makeLimit(settings: NumberSettings, change: LimitChange = {}): Limit {
  const numbers = changed(settings, change)
  const { limit, per = 0, burst, ttl = 0 } = numbers
  const shared = {
    limit,
    ...(settings.onStoreError === undefined ? undefined : { onStoreError: settings.onStoreError }),
    ...(settings.onOverload === undefined ? undefined : { onOverload: settings.onOverload }),
    ...(settings.accuracy === undefined ? undefined : { accuracy: settings.accuracy }),
  }
  switch (settings.algorithm) {
    case 'tokenBucket':
      return tokenBucket({
        ...shared,
        per: duration(per),
        ...(burst === undefined ? undefined : { burst }),
      })
    case 'slidingWindow':
      return slidingWindow({ ...shared, per: duration(per) })
    case 'slidingLog':
      return slidingLog({ ...shared, per: duration(per) })
    case 'fixedWindow':
      return fixedWindow({
        ...shared,
        per: typeof per === 'number' ? inMs(per) : per,
        ...(settings.timeZone === undefined ? undefined : { timeZone: settings.timeZone }),
      })
    case 'concurrency':
      return concurrency({ ...shared, ttl: inMs(ttl) })
  }
}

/** A limit with other numbers, which else behaves alike. Throws as `makeLimit` does. */
export function changedLimit(limit: Limit, change: LimitChange): Limit {
  const { algorithm, onStoreError, onOverload, accuracy } = limit
  const settings = { algorithm, limit: limit.limit, onStoreError, onOverload, accuracy }
  return makeLimit({ ...settings, ...numbersOf(limit) }, change)
}

function numbersOf(limit: Limit): Omit<LimitChange, 'limit'> & { readonly timeZone?: string } {
  if (limit.algorithm === 'concurrency') return { ttl: limit.ttlMs }
  if (limit.algorithm === 'tokenBucket') return { per: limit.perMs, burst: limit.burst }
  if (limit.algorithm !== 'fixedWindow') return { per: limit.perMs }
  const { per } = limit
  return typeof per === 'number' ? { per } : { per: per.unit, timeZone: per.timeZone }
}

/** A burst belongs to its limit: if only the limit changes, the old burst does not apply. */
function changed(settings: NumberSettings, change: LimitChange) {
  const isNewLimit = change.limit !== undefined
  return {
    limit: change.limit ?? settings.limit,
    per: change.per ?? settings.per,
    burst: change.burst ?? (isNewLimit ? undefined : settings.burst),
    ttl: change.ttl ?? settings.ttl,
  }
}

/** A calendar unit is invalid here and becomes 0, which the library refuses. */
function duration(per: number | CalendarUnit): Duration {
  return inMs(typeof per === 'number' ? per : 0)
}

/** Settings are in milliseconds; the library takes durations with a unit. */
function inMs(durationMs: number): Duration {
  return `${durationMs}ms`
}
