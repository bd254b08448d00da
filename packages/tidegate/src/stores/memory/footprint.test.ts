import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { sizes } from '../../../../../test/support/suite.ts'

const limits = [
  `tokenBucket({ limit: 100, per: '1d' })`,
  `slidingWindow({ limit: 100, per: '1d' })`,
  `fixedWindow({ limit: 100, per: '1d' })`,
]

/** Charges keys that exist before, and prints what each costs beyond its text. */
const program = (limit: string) => `
  import * as tidegate from '${new URL('../../index.ts', import.meta.url)}'
  const { createLimiter, ${limit.split('(')[0]} } = tidegate
  const keys = Array.from({ length: ${sizes.measuredKeys} }, (_, at) => 'user:' + at)
  const used = () => {
    gc()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const before = used()
  const limiter = createLimiter({ limit: ${limit} })
  for (const key of keys) limiter.checkSync(key)
  console.log((used() - before) / keys.length)
  limiter.checkSync(keys[0])
`

describe('the memory of many idle keys', () => {
  it.each(limits)('%s: at most 120 bytes each beyond the key text', (limit) => {
    const argv = ['--expose-gc', '--input-type=module', '--eval', program(limit)]
    const bytes = Number(execFileSync(process.execPath, argv, { encoding: 'utf8' }))
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThanOrEqual(120)
  })
})
