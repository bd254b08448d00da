import { describe, expect, test } from 'vitest'
import { fc } from '../../../../../test/support/fast-check.ts'
import {
  costsOf,
  emptyRow,
  mergeEntry,
  type SharedEntry,
  type SharedRow,
  targetOf,
} from './shared-row.ts'

const INCARNATION = '0'.repeat(16)
const NO_ENTRIES: readonly SharedEntry[] = []

/** Entries as their regions write them: newer versions have larger counts. */
const entry: fc.Arbitrary<SharedEntry> = fc
  .record({ region: fc.nat(2), version: fc.nat(20), mask: fc.nat(7) })
  .map(({ region, version, mask }) => ({
    region,
    incarnation: INCARNATION,
    own: version * 5,
    stable: version * 2,
    maskVersion: version >> 1,
    mask: (((version >> 1) + mask * 0) % 8) | (1 << region),
  }))

describe('rows', () => {
  test('are the same after entries in any order, and twice', () => {
    const shuffled = fc
      .array(entry, { maxLength: 20 })
      .chain((entries) =>
        fc.tuple(fc.constant(entries), fc.shuffledSubarray(entries, { minLength: entries.length })),
      )
    const sorted = (entries: readonly SharedEntry[]) =>
      entries.toSorted((one, other) => one.region - other.region)
    fc.assert(
      fc.property(shuffled, ([entries, others]) => {
        const merged = entries.reduce(mergeEntry, NO_ENTRIES)
        const twice = [...others, ...entries].reduce(mergeEntry, NO_ENTRIES)
        expect(sorted(twice)).toEqual(sorted(merged))
      }),
    )
  })
})

describe('the cost rule', () => {
  /** The parts that ten units of region 0 cost in each region, given the regions that know them. */
  function costs(knownBy: readonly number[], mask: number, blind = 1): number[] {
    const own = { region: 0, incarnation: INCARNATION, own: 10, maskVersion: 1, mask }
    const isStable = knownBy.length === 2 && mask === 7
    const units: SharedEntry = { ...own, stable: isStable ? 10 : 0 }
    return [0, 1, 2].map((self) => {
      const empty = emptyRow(0, INCARNATION, 3, 0)
      const acks = empty.acks.map((ack, region) =>
        knownBy.includes(region) ? { own: 10, maskVersion: 1 } : ack,
      )
      const knows = self === 0 || knownBy.includes(self)
      const row: SharedRow = { ...empty, acks, entries: knows ? [units] : [] }
      const prices = costsOf([1, 1, 1], self, blind)
      return (self === 0 ? 10 * prices.whole : 0) + targetOf(row, prices, 7)
    })
  }

  test.for([
    { is: 'unknown units cost their region all', knownBy: [], mask: 7, parts: [30, 0, 0] },
    { is: 'units that one peer knows do, too', knownBy: [1], mask: 7, parts: [30, 10, 0] },
    {
      is: 'units that all know cost each its share',
      knownBy: [1, 2],
      mask: 7,
      parts: [10, 10, 10],
    },
    { is: 'under a mask, its regions pay', knownBy: [1], mask: 3, parts: [15, 15, 0] },
    { is: 'a region outside pays its share', knownBy: [1, 2], mask: 3, parts: [15, 15, 10] },
    { is: 'alone in the mask, the region pays', knownBy: [], mask: 1, parts: [30, 0, 0] },
  ])('$is', ({ knownBy, mask, parts }) => {
    expect(costs(knownBy, mask)).toEqual(parts)
  })

  test('blind in all regions is a plain counter: a unit costs a unit where it is known', () => {
    expect(costs([], 7, 3)).toEqual([30, 0, 0])
    expect(costs([1], 7, 3)).toEqual([30, 30, 0])
    expect(costs([1, 2], 7, 3)).toEqual([30, 30, 30])
  })
})
