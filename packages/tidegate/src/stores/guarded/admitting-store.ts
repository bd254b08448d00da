/** The store of a limiter that is turned off: it admits everything and counts nothing. */

import type { Store } from '../store.ts'
import { openDecision, sparedDecision } from './fallback-decisions.ts'

export const admittingStore: Store = {
  isRemote: false,
  charge: (group, mode) =>
    group.map((charge) =>
      mode === 'peek'
        ? sparedDecision(charge, 'disabled', 'open')
        : openDecision(charge, 'disabled'),
    ),
  adjust: (group) =>
    group.map((adjustment) => sparedDecision({ ...adjustment, cost: 0 }, 'disabled', 'open')),
  reset: () => undefined,
  close: () => undefined,
}
