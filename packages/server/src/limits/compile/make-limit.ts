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

/** Throws a `TidegateError` with the path of the option, such as `tokenBucket.burst`. */
export function makeLimit(settings: LimitSettings, change: LimitChange = {}): Limit {
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

/** A burst belongs to its limit: if only the limit changes, the old burst does not apply. */
function changed(settings: LimitSettings, change: LimitChange) {
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
