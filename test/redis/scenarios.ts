/** What several processes do at once with one limit, and how many of them it admits. */

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
  const single = {
    tokenBucket: createLimiter({ limit: tokenBucket(per), store }),
    slidingWindow: createLimiter({ limit: slidingWindow(per), store }),
    slidingLog: createLimiter({ limit: slidingLog(per), store }),
    fixedWindow: createLimiter({ limit: fixedWindow(per), store }),
    slots: createLimiter({ limit: concurrency({ limit: LIMIT, ttl: '1h' }), store }),
  }
  const wide = fixedWindow({ limit: WIDE_LIMIT, per: PER })
  const both = createLimiter({ limits: { narrow: tokenBucket(per), wide }, store })
  return {
    async attempt(scenario, key) {
      if (scenario === 'twoLimits') return (await both.check({ narrow: key, wide: key })).allowed
      if (scenario === 'slots') return (await single.slots.acquire(key)).allowed
      return (await single[scenario].check(key)).allowed
    },
    async remaining(scenario, key) {
      if (scenario !== 'twoLimits') return [(await single[scenario].peek(key)).remaining]
      const { limits } = await both.peek({ narrow: key, wide: key })
      return [limits.narrow.remaining, limits.wide.remaining]
    },
  }
}
