/** The store of a limiter that is turned off: it admits everything and counts nothing. */

import { openDecision, sparedDecision } from '../stores/guarded/fallback-decisions.ts'
import type { Store } from '../stores/store.ts'

export const disabledStore: Store = {
  isRemote: false,
  charge: (group, mode) =>
    group.map((charge) =>
      mode === 'peek'
        ? sparedDecision(charge, 'disabled', 'open')
        : openDecision(charge, 'disabled'),
    ),
  chargeOne: (counter, cost) => openDecision({ ...counter, cost }, 'disabled'),
  adjust: (group) =>
    group.map((adjustment) => sparedDecision({ ...adjustment, cost: 0 }, 'disabled', 'open')),
  reset: () => undefined,
  close: () => undefined,
}
