/** From a limit of a policy, with what a tier or an override changes, to a limit of the engine. */

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
import type { LimitChange, LimitSection } from './limits-section.ts'

/** Throws a `TidegateError` with the path of the option, such as `tokenBucket.burst`. */
export function makeLimit(section: LimitSection, change: LimitChange = {}): Limit {
  const numbers = changed(section, change)
  const { limit, per = 0, burst, ttl = 0 } = numbers
  const shared = {
    limit,
    ...(section.onStoreError === undefined ? undefined : { onStoreError: section.onStoreError }),
    ...(section.onOverload === undefined ? undefined : { onOverload: section.onOverload }),
    ...(section.accuracy === undefined ? undefined : { accuracy: section.accuracy }),
  }
  switch (section.algorithm) {
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
        ...(section.timeZone === undefined ? undefined : { timeZone: section.timeZone }),
      })
    case 'concurrency':
      return concurrency({ ...shared, ttl: inMs(ttl) })
  }
}

/** A burst belongs to its limit: where only the limit is changed, the old burst does not hold. */
function changed(section: LimitSection, change: LimitChange) {
  const isNewLimit = change.limit !== undefined
  return {
    limit: change.limit ?? section.limit,
    per: change.per ?? section.per,
    burst: change.burst ?? (isNewLimit ? undefined : section.burst),
    ttl: change.ttl ?? section.ttl,
  }
}

/** A calendar unit that does not belong here is 0, which the library refuses as it must. */
function duration(per: number | CalendarUnit): Duration {
  return inMs(typeof per === 'number' ? per : 0)
}

/** A policy is read into milliseconds; the library takes durations with their unit. */
function inMs(durationMs: number): Duration {
  return `${durationMs}ms`
}
