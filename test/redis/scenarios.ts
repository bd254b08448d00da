/** Scenarios of several processes that use one limit at once. */

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
import { patient } from '../support/patience.ts'

/** Units that each scenario admits, with a period so long that no unit is refilled. */
export const LIMIT = 100
const PER = '30d'

/** The second of two limits, so that the first one denies. */
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
  /** Resolves to whether the attempt was admitted. */
  attempt(scenario: Scenario, key: string): Promise<boolean>
  /** The remaining units of each limit of the scenario. */
  remaining(scenario: Scenario, key: string): Promise<number[]>
}

export function scenariosOn(store: Store): Scenarios {
  const per = { limit: LIMIT, per: PER } as const
  const options = { store, ...patient }
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

/** Throws for a degraded decision, which is a failure here. */
function isAllowed({ allowed, degraded }: Decision): boolean {
  if (degraded !== null) throw new Error(`decided without the store: ${degraded.reason}`)
  return allowed
}
