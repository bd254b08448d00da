import { describe, expect, it } from 'vitest'
import type { Decision } from '../decision.ts'
import { fixedWindow } from '../limits/limits.ts'
import { problemOf } from './problem.ts'

const limit = fixedWindow({ limit: 5, per: '1m' })

const denied: Decision = {
  allowed: false,
  limit: 5,
  remaining: 0,
  retryAfterMs: 41_200,
  resetAfterMs: 41_200,
  granted: 0,
  degraded: null,
  source: 'store',
}

const admitted: Decision = { ...denied, allowed: true, remaining: 3, retryAfterMs: 0 }

function problem(decision: Decision, byName: Record<string, Decision>) {
  const applied = Object.entries(byName).map(([name, own]) => ({ name, limit, decision: own }))
  return problemOf({ decision, applied })
}

describe('a problem', () => {
  it('names the limits that said no, and no others', () => {
    const detail = 'Too many requests for limits org, user. Try again in 42 seconds.'
    expect(problem(denied, { org: denied, ip: admitted, user: denied })).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      detail,
      'violated-policies': ['org', 'user'],
      error: 'Rate limit exceeded',
      message: detail,
      retry_after: 42,
    })
  })

  it.each([
    [1, 'Too many requests for limit api. Try again in 1 second.', 1],
    [2_000, 'Too many requests for limit api. Try again in 2 seconds.', 2],
    [Infinity, 'Too many requests for limit api. No wait will admit this one.', undefined],
  ])('with a wait of %d ms says so', (retryAfterMs, detail, seconds) => {
    const decision = { ...denied, retryAfterMs }
    const { retry_after, ...rest } = problem(decision, { api: decision })
    expect([rest.detail, retry_after]).toEqual([detail, seconds])
  })

  const down = { ...denied, degraded: { reason: 'timeout', mode: 'closed' } } as const
  const open = { ...admitted, degraded: { reason: 'timeout', mode: 'open' } } as const
  const local = { ...denied, degraded: { reason: 'timeout', mode: 'local' } } as const

  it.each<[string, number, Decision, Record<string, Decision>]>([
    ['a limit that is closed', 503, down, { api: down }],
    ['a limit that is closed, beside one that is open', 503, open, { ip: open, api: down }],
    ['a share of the limit that is used up', 429, local, { api: local }],
  ])('during an outage, because of %s, is a %i', (_, status, decision, byName) => {
    expect(problem(decision, byName).status).toBe(status)
  })

  it('during an outage blames no client', () => {
    expect(problem(down, { api: down })).toEqual({
      type: 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity',
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
      status: 503,
      detail: 'The rate limiter is temporarily unavailable. Try again in 42 seconds.',
      'violated-policies': ['api'],
      error: 'Rate limiter unavailable',
      message: 'The rate limiter is temporarily unavailable. Try again in 42 seconds.',
      retry_after: 42,
    })
    const forever = { ...down, retryAfterMs: Infinity }
    expect(problem(forever, { api: forever }).detail).toMatch(/Try again later\.$/)
  })
})
