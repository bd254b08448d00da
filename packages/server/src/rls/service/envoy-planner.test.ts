import { expect, test } from 'vitest'
import { type LiveEntries, noEntries } from '../../limits/live/live-entries.ts'
import { LiveRules } from '../../limits/live/live-rules.ts'
import { parseConfig } from '../config/rls-config.ts'
import { rlsDefaults } from '../settings.ts'
import { EnvoyIndex } from './envoy-limits.ts'
import { EnvoyPlanner } from './envoy-planner.ts'
import { Stats } from './stats.ts'

const END_MS = 1_000

const text = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
`

/** Plans a call of ada before and after the end of the entries. */
function plansWith(entries: Partial<LiveEntries>) {
  const config = parseConfig([{ name: 'shop.yaml', text }])
  let nowMs = 0
  const index = new EnvoyIndex(config, '')
  const live = new LiveRules({ ...noEntries, ...entries }, index, () => nowMs)
  const settings = { ...rlsDefaults, configDirectory: '' }
  const planner = new EnvoyPlanner(config, new Stats(), settings, live)
  const plan = () => {
    const plain = { limit: undefined, hitsAddend: undefined, isNegativeHits: false }
    const descriptor = { entries: [{ key: 'user', value: 'ada' }], ...plain }
    const made = planner.plan({ domain: 'shop', hitsAddend: 0, descriptors: [descriptor] })
    const [charge] = made.charges
    const limit = charge?.limit.limit ?? 0
    const isRefused = made.items[0]?.isRefused
    return { isLasting: made.isLasting, limit, isShadow: charge?.isShadow ?? false, isRefused }
  }
  const before = plan()
  nowMs = END_MS
  return { before, after: plan() }
}

const origin = { id: 'x', at: 0, expiresAt: END_MS }
const ada = { ...origin, kind: 'user', value: 'ada', answer: 403 } as const
const other = { ...ada, value: 'eve' } as const
const override = { ...origin, limit: 'shop', key: ['user=ada'], set: { limit: 7 } }
const lifted = { ...origin, limits: 'on', blocks: 'off' } as const

const plain = { isLasting: true, limit: 2, isShadow: false, isRefused: false }
const refused = { isLasting: false, limit: 0, isShadow: false, isRefused: true }

test.for<[string, Partial<LiveEntries>, object, object]>([
  ['no entries', {}, plain, plain],
  ['entries of others', { blocks: [other] }, plain, plain],
  ['an override', { overrides: [override] }, { ...plain, limit: 7, isLasting: false }, plain],
  ['a block', { blocks: [ada] }, refused, plain],
  [
    'a switch that lifts a block',
    { blocks: [{ ...ada, expiresAt: Infinity }], switch: lifted },
    { ...plain, isLasting: false },
    refused,
  ],
  [
    'a switch to shadow',
    { switch: { ...origin, limits: 'shadow', blocks: 'on' } },
    { ...plain, isShadow: true, isLasting: false },
    plain,
  ],
  [
    'a switch to off',
    { switch: { ...origin, limits: 'off', blocks: 'on' } },
    { ...plain, limit: 0, isLasting: false },
    plain,
  ],
])('with %s, a plan lasts only if the end of no entry changes it', ([, entries, first, then]) => {
  const { before, after } = plansWith(entries)
  expect(before).toEqual(first)
  expect(after).toEqual(then)
})
