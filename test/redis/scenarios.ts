/** What several processes do at once with one limit, and how many of them it admits. */

import type { Decision } from '../../packages/tidegate/src/decision.ts'
import {
  concurrency,
  createLimiter,
  fixedWindow,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from '../../packages/tidegate/src/index.ts'
import type { Store } from '../../packages/tidegate/src/stores/store.ts'

/** What each scenario admits; over so long a period that no unit comes back while a test runs. */
export const LIMIT = 100
const PER = '30d'

/** A decision that is made without the store would be no proof, so it may take its time. */
const DEADLINE_MS = 10_000

/** Of the second one of two limits, so that the first is the one that denies. */
export const WIDE_LIMIT = 150

export const scenarioNames = [
  'tokenBucket',
  'slidingWindow',
  'slidingLog',
  'fixedWindow',
  'twoLimits',
  'slots',
] as const

export type Scenario = (typeof scenarioNames)[number]

export interface Scenarios {
  /** Tells whether it was admitted. */
  attempt(scenario: Scenario, key: string): Promise<boolean>
  /** What is left of each limit of the scenario. */
  remaining(scenario: Scenario, key: string): Promise<number[]>
}

export function scenariosOn(store: Store): Scenarios {
  const per = { limit: LIMIT, per: PER } as const
  const options = { store, deadlineMs: DEADLINE_MS }
  const single = {
    tokenBucket: createLimiter({ limit: tokenBucket(per), ...options }),
    slidingWindow: createLimiter({ limit: slidingWindow(per), ...options }),
    slidingLog: createLimiter({ limit: slidingLog(per), ...options }),
    fixedWindow: createLimiter({ limit: fixedWindow(per), ...options }),
    slots: createLimiter({ limit: concurrency({ limit: LIMIT, ttl: '1h' }), ...options }),
  }
  const wide = fixedWindow({ limit: WIDE_LIMIT, per: PER })
  const both = createLimiter({ limits: { narrow: tokenBucket(per), wide }, ...options })
  return {
    async attempt(scenario, key) {
      if (scenario === 'twoLimits') return isAllowed(await both.check({ narrow: key, wide: key }))
      if (scenario === 'slots') return isAllowed(await single.slots.acquire(key))
      return isAllowed(await single[scenario].check(key))
    },
    async remaining(scenario, key) {
      if (scenario !== 'twoLimits') return [(await single[scenario].peek(key)).remaining]
      const { limits } = await both.peek({ narrow: key, wide: key })
      return [limits.narrow.remaining, limits.wide.remaining]
    },
  }
}

/** By the store: a decision that was made without it is a failure here. */
function isAllowed({ allowed, degraded }: Decision): boolean {
  if (degraded !== null) throw new Error(`decided without the store: ${degraded.reason}`)
  return allowed
}
