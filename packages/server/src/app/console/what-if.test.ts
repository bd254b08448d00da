import type { Decision } from 'tidegate'
import { expect, test } from 'vitest'
import { makeLimit } from '../../limits/compile/make-limit.ts'
import type { LimitSettings } from '../../limits/limit-settings.ts'
import { Arrivals } from '../../observability/traffic/key-arrivals.ts'
import { parsePolicy } from '../../policy/read-policy.ts'
import { whatIf } from './what-if.ts'

function limitsOf(...limits: readonly object[]): readonly LimitSettings[] {
  const read = parsePolicy({ limits }, 'test')
  if (!read.ok) throw new Error(read.problems[0]?.message)
  return read.document.limits
}

const api = { name: 'api', key: 'ip', otherwise: 'deny', limit: 10, per: '1s' }

/** 60 seconds in which `calm` sends 2 requests a second and `flood` sends 50. */
function traffic(settings: LimitSettings): Arrivals {
  let nowMs = 1_000_000_000
  const arrivals = new Arrivals(() => nowMs)
  const decision = { allowed: true } as Decision
  for (let second = 0; second < 60; second++) {
    arrivals.tick()
    arrivals.add('api', 'calm', 2, makeLimit(settings), decision)
    arrivals.add('api', 'flood', 50, makeLimit(settings), decision)
    nowMs += 1_000
  }
  return arrivals
}

async function tried(after: readonly object[]) {
  const before = limitsOf(api)
  const arrivals = traffic(before[0] as LimitSettings)
  return whatIf({
    before,
    after: limitsOf(...after),
    arrivals: (name) => arrivals.read(name),
    shownKey: (_, key) => key,
  })
}

test('a lower limit refuses a client that was admitted', async () => {
  const { limits, unchanged } = await tried([{ ...api, limit: 1 }])
  expect(unchanged).toBe(0)
  const [found] = limits
  expect(found).toMatchObject({ keys: 2, asked: 3_120, reason: null, newlyRefusedKeys: 1 })
  expect(found?.newlyRefused[0]?.key).toBe('calm')
  // 50 a second against a bucket of 10 with 10 a second: 40 in each second are refused.
  expect((found?.deniedBefore ?? 0) / 2_390).toBeCloseTo(1, 1)
})

test('a higher limit refuses none, and the same policy changes nothing', async () => {
  const { limits } = await tried([{ ...api, limit: 100 }])
  expect(limits[0]).toMatchObject({ deniedAfter: 0, newlyRefusedKeys: 0 })
  expect(await tried([api])).toMatchObject({ limits: [], unchanged: 1 })
})

test('what cannot be replayed is named with the reason', async () => {
  const { limits } = await tried([{ ...api, key: 'user' }])
  expect(limits[0]?.reason).toBe('it is counted by another key')
  const other = await tried([{ ...api, name: 'other' }])
  expect(other).toMatchObject({ added: ['other'], removed: ['api'], limits: [] })
  const shadow = await tried([{ ...api, limit: 1, mode: 'shadow' }])
  expect(shadow.limits[0]).toMatchObject({ deniedAfter: 0, after: '1 per 1s, shadow' })
})
