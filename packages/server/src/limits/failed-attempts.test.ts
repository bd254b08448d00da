import { describe, expect, it } from 'vitest'
import { FailedAttempts } from './failed-attempts.ts'

const section = { limit: 3, per: 3_600_000 }

/** Attempts whose outcome a test decides. */
function pending() {
  const ends: ((outcome: 'good' | 'bad') => void)[] = []
  const start = () => new Promise<'good' | 'bad'>((resolve) => ends.push(resolve))
  return { ends, start }
}

const isBad = (outcome: string) => outcome === 'bad'

const turn = () => new Promise((done) => setImmediate(done))

describe('failed attempts', () => {
  it('are refused beyond the limit, for one client and not for others', () => {
    const failures = new FailedAttempts(section)
    for (let count = 0; count < 3; count += 1) {
      expect(failures.refusalOf('a')).toBeUndefined()
      failures.note('a')
    }
    expect(failures.refusalOf('a')).toMatchObject({
      decision: { allowed: false, limit: 3, remaining: 0 },
      applied: [{ name: 'auth.failures' }],
    })
    expect(failures.refusalOf('a')?.decision.retryAfterMs).toBeGreaterThan(0)
    expect(failures.refusalOf('b')).toBeUndefined()
  })

  it('count on with other numbers, and not at all if they are off', () => {
    const failures = new FailedAttempts(section)
    for (let count = 0; count < 3; count += 1) failures.note('a')
    failures.use({ ...section, limit: 4 })
    expect(failures.refusalOf('a')).toBeUndefined()
    failures.note('a')
    expect(failures.refusalOf('a')).toBeDefined()
    failures.use('off')
    expect(failures.refusalOf('a')).toBeUndefined()
    expect(failures.attempt('a', () => 'bad', isBad)).toBe('bad')
  })

  it('that are answered at once are charged, and good ones are not', () => {
    const failures = new FailedAttempts(section)
    for (let count = 0; count < 10; count += 1) {
      expect(failures.attempt('a', () => 'good', isBad)).toBe('good')
    }
    for (let count = 0; count < 3; count += 1) {
      expect(failures.attempt('a', () => 'bad', isBad)).toBe('bad')
    }
    expect(failures.attempt('a', () => 'good', isBad)).toHaveProperty('decision.allowed', false)
  })

  it('of a burst do not pass the limit', async () => {
    const failures = new FailedAttempts(section)
    const { ends, start } = pending()
    const answers = Array.from({ length: 10 }, () => failures.attempt('a', start, isBad))
    expect(ends).toHaveLength(3)
    ends[0]?.('bad')
    await turn()
    expect(ends).toHaveLength(3)
    ends[1]?.('bad')
    ends[2]?.('bad')
    const found = await Promise.all(answers)
    expect(ends).toHaveLength(3)
    expect(found.filter((one) => one === 'bad')).toHaveLength(3)
    expect(found.filter((one) => typeof one === 'object')).toHaveLength(7)
  })

  it('leave good ones of a burst alone', async () => {
    const failures = new FailedAttempts(section)
    const { ends, start } = pending()
    const answers = Array.from({ length: 10 }, () => failures.attempt('a', start, isBad))
    for (let at = 0; at < 10; at += 1) {
      expect(ends.length).toBe(Math.min(at + 3, 10))
      ends[at]?.('good')
      await turn()
    }
    expect(await Promise.all(answers)).toEqual(Array(10).fill('good'))
    expect(failures.refusalOf('a')).toBeUndefined()
  })

  it('that end with an error make room for the next', async () => {
    const failures = new FailedAttempts({ ...section, limit: 1 })
    const broken = failures.attempt('a', () => Promise.reject(new Error('no keys')), isBad)
    const next = failures.attempt('a', async () => 'good', isBad)
    await expect(broken).rejects.toThrow('no keys')
    expect(await next).toBe('good')
  })
})
