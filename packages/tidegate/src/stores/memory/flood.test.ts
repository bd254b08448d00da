import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { sizes } from '../../../../../test/support/suite.ts'

/** Pages that stay, with the arrays of their columns, and what V8 keeps of maps that were large. */
const LEFT_BYTES_MAX = 8_000_000

/** One key in a hundred lasts for a day, and lies between keys that expire. */
const LASTING_EVERY = 100

/** All of the keys that last, with their text. */
const LASTING_BYTES = (sizes.floodKeys / LASTING_EVERY) * 200

/**
 * Floods a store with made-up keys, lets their window pass and waits until the store has given them
 * back. Prints the bytes in use before, with all keys, and afterwards, and the keys that are left.
 */
const program = `
  import { createLimiter, manualClock, memoryStore, tokenBucket } from
    '${new URL('../../index.ts', import.meta.url)}'
  const used = () => {
    gc()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const clock = manualClock()
  const store = memoryStore({ clock })
  const flooded = createLimiter({ limit: tokenBucket({ limit: 10, per: '1m' }), store })
  const lasting = createLimiter({
    limits: { lasting: tokenBucket({ limit: 10, per: '1d' }) },
    store,
  })
  flooded.checkSync('warm')
  const before = used()
  for (let at = 0; at < ${sizes.floodKeys}; at++) {
    flooded.checkSync('made up ' + at)
    if (at % ${LASTING_EVERY} === 0) lasting.checkSync({ lasting: 'user ' + at })
  }
  const full = used()
  const keysMost = store.size
  clock.advance(120_000)
  const endMs = performance.now() + 240_000
  let left = full
  while (left - before >= ${LEFT_BYTES_MAX + LASTING_BYTES} && performance.now() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, 50))
    // Collecting garbage takes longer than the store works in between.
    if (store.size < keysMost / 2) left = used()
  }
  const first = (await lasting.peek({ lasting: 'user 0' })).remaining
  console.log(JSON.stringify({ before, full, left, keysMost, keysLeft: store.size, first }))
`

describe('the memory of a flood of made-up keys', () => {
  it('comes back when they expire, and keys that last stay', { timeout: 400_000 }, () => {
    const argv = ['--expose-gc', '--input-type=module', '--eval', program]
    const options = { encoding: 'utf8', timeout: 380_000 } as const
    const found = JSON.parse(execFileSync(process.execPath, argv, options))
    expect(found.keysMost).toBeGreaterThanOrEqual(Math.min(sizes.floodKeys, 1_000_000))
    expect(found.full - found.before).toBeLessThan(found.keysMost * 200)
    expect(found.left - found.before).toBeLessThan(LEFT_BYTES_MAX + LASTING_BYTES)
    expect(found.first).toBe(9)
  })
})
