/**
 * Defects that the simulations must find. Each is a change of the source text, made in a copy of
 * the library and of the simulations.
 */

export interface Mutant {
  readonly name: string
  readonly simulation: 'shared' | 'partition' | 'home' | 'escrow'
  /** Default: 1. For a defect that only one of some thousand seeds finds. */
  readonly firstSeed?: number
  /** A source of the library or of the server, or in test/simulation. */
  readonly file: string
  readonly changes: readonly (readonly [from: string, to: string])[]
}

const regions = 'packages/tidegate/src/stores/regions'
const server = 'packages/server/src/regions'

export const mutants: readonly Mutant[] = [
  {
    name: 'a lender grants before its units have drained',
    simulation: 'partition',
    file: `${regions}/loans.ts`,
    changes: [["state: 'draining', untilMs: nowMs + drainMs", "state: 'draining', untilMs: nowMs"]],
  },
  {
    name: 'a lender takes parts back before the units of the borrower have drained',
    simulation: 'partition',
    file: `${regions}/loans.ts`,
    changes: [['untilMs: nowMs + ttlMs + drainMs', 'untilMs: nowMs + ttlMs']],
  },
  {
    name: 'a region grows into its base of the next epoch at once',
    simulation: 'partition',
    file: `${regions}/epochs.ts`,
    changes: [
      [
        'return partsIn(after, region)\n  return smaller(before, after, region)',
        'return partsIn(after, region)\n  return partsIn(after, region)',
      ],
    ],
  },
  {
    name: 'a borrower counts from the receipt instead of the request',
    simulation: 'partition',
    file: `${regions}/partition-region.ts`,
    changes: [
      ['this.#receiveAnswer(from, message)', 'this.#receiveAnswer(from, message, nowMs)'],
      ['parts, ttlMs }: PartitionAnswer): void', 'parts, ttlMs }: PartitionAnswer, nowMs): void'],
      [
        'received(loan, sequence',
        'received({ ...loan, sent: [{ sequence, sentMs: nowMs }] }, sequence',
      ],
    ],
  },
  {
    name: 'a lender that lost its data does not learn its loans',
    simulation: 'partition',
    file: `${regions}/partition-region.ts`,
    changes: [['settings.isLearning ? nowMs +', 'settings.isLearning ? -Infinity +']],
  },
  {
    name: 'a silent peer is dropped without a mask',
    simulation: 'shared',
    file: `${regions}/shared-row.ts`,
    changes: [
      [
        'if (region !== costs.self) stable',
        'if (region !== costs.self && isIn(entry.mask, region)) stable',
      ],
    ],
  },
  {
    name: 'foreign counts are published as own',
    simulation: 'shared',
    file: `${regions}/shared-region.ts`,
    changes: [['own: (own?.own ?? 0) + units', 'own: knownUnits(row) + units']],
  },
  {
    name: 'a lost store goes on with its incarnation',
    simulation: 'shared',
    file: 'test/simulation/shared-world.ts',
    changes: [['region.incarnation = stampText(', 'stampText(']],
  },
  {
    name: 'an entry is counted in the wrong cell',
    simulation: 'shared',
    file: `${regions}/shared-region.ts`,
    changes: [
      ['if (!this.#cells.isOpen(cell, times.storeMs)) return []', ''],
      [
        'const before = this.#rowAt(key, cell, times)',
        'const before = this.#rowAt(key, this.#cells.at(times.storeMs), times)',
      ],
    ],
  },
  {
    name: 'units are given back before all regions have counted them',
    simulation: 'shared',
    file: `${regions}/shared-row.ts`,
    changes: [['return Math.max(stable, entry.stable)', 'return entry.own']],
  },
  {
    name: 'an answer is sent without the adjustment of the counter',
    simulation: 'shared',
    file: 'test/simulation/shared-world.ts',
    changes: [
      ['for (const { key, units } of adjust) region', 'for (const { key, units } of []) region'],
    ],
  },
  {
    name: 'an answer acknowledges units without those that were admitted meanwhile',
    simulation: 'shared',
    file: `${regions}/shared-row.ts`,
    changes: [
      [
        'sent.some((one) => isSame(one, entry)) || isNews(entry, echo, all)',
        'sent.some((one) => isSame(one, entry))',
      ],
    ],
  },
  {
    name: 'a borrower that lost its loans reports that it has none',
    simulation: 'partition',
    firstSeed: 9_001,
    file: `${regions}/partition-region.ts`,
    changes: [['seen: (!this.#isDraining(nowMs) && ', 'seen: (']],
  },
  {
    name: 'late units are given back to the next window',
    simulation: 'home',
    file: `${server}/peer/give-back.ts`,
    changes: [['elapsedMs > MESSAGE_MS_MAX', 'elapsedMs > -Infinity']],
  },
  {
    name: 'units are given back although leases hide the end of the window',
    simulation: 'escrow',
    file: `${server}/peer/give-back.ts`,
    changes: [['if (resetAfterMs > lastsMs(limit)) return false', '']],
  },
  {
    name: 'a block is spent after its home has charged it',
    simulation: 'escrow',
    file: `${server}/escrow/escrow-pool.ts`,
    changes: [['const SPEND_MS_MAX = 8_000', 'const SPEND_MS_MAX = 30_000']],
  },
  {
    name: 'keys of a forgotten region have another home in the same window',
    simulation: 'home',
    file: `${server}/forgotten-regions.ts`,
    changes: [['sinceMs > lastsMs(limit) + SETTLED_MS', 'sinceMs > SETTLED_MS']],
  },
  {
    name: 'a home gives the reserves away as well',
    simulation: 'home',
    file: `${server}/region-limits.ts`,
    changes: [['(units) => homeUnits(units, percent, names.length)', '(units) => units']],
  },
  {
    name: 'a block is settled as if nothing of it was spent',
    simulation: 'escrow',
    file: `${server}/escrow/escrow-pools.ts`,
    changes: [['this.#release(key, id, granted - left)', 'this.#release(key, id, 0)']],
  },
  {
    name: 'a block of a dead process is dropped instead of charged',
    simulation: 'escrow',
    file: `${server}/escrow/escrow-pools.ts`,
    changes: [["const LEASE_MARK = '!'", "const LEASE_MARK = ''"]],
  },
]
