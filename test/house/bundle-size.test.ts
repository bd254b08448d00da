/** The contents of a bundle with the library, and its size as documented in docs/api.md. */

import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { bundle } from './bundle.ts'
import { readText } from './source-file.ts'

/** Smaller changes, also by another version of the bundler, need no new figures. */
const DRIFT_MAX = 0.15

const programs: Readonly<Record<string, string>> = {
  'a limiter in memory': `export { createLimiter, tokenBucket } from 'tidegate'`,
  'the middleware for Hono': `
    export { tokenBucket } from 'tidegate'
    export { tidegate } from 'tidegate/hono'`,
  'the middleware for Express': `
    export { tokenBucket } from 'tidegate'
    export { tidegate } from 'tidegate/express'`,
  'a limiter on Redis': `
    export { createLimiter, tokenBucket } from 'tidegate'
    export { redisStore } from 'tidegate/redis'`,
}

/** Checks and constants that a limiter in memory needs as well. */
const smallParts = [
  'stores/charge-one.ts',
  'stores/guarded/fallback-decisions.ts',
  'stores/guarded/guarded-options.ts',
]

describe('a bundle', () => {
  test.each(Object.keys(programs).filter((name) => !name.endsWith('Redis')))(
    'with %s has no guard and no leases',
    async (name) => {
      const { files } = await bundle(programs[name] ?? '')
      const remote = files.filter((path) => /^stores\/(?!memory\/)/.test(path))
      expect(remote).toEqual(smallParts)
    },
  )

  test('with a limiter on Redis has both', async () => {
    const { files } = await bundle(programs['a limiter on Redis'] ?? '')
    expect(files).toContain('stores/guarded/guarded-store.ts')
    expect(files).toContain('stores/hot-keys/leased-store.ts')
  })

  test.each(Object.entries(programs))('with %s is as large as documented', async (name, code) => {
    const { script } = await bundle(code)
    const row = new RegExp(`^\\| ${name} \\| (\\d+) \\| (\\d+) \\|$`, 'm')
    const documented = readText('docs/api.md').match(row)?.slice(1).map(Number) ?? []
    const found = [script, gzipSync(script)].map(({ length }) => length / 1_000)
    expect(documented).toHaveLength(found.length)
    for (const [at, kilobytes] of found.entries()) {
      const ratio = kilobytes / (documented[at] ?? 0)
      expect(ratio).toBeGreaterThan(1 - DRIFT_MAX)
      expect(ratio).toBeLessThan(1 + DRIFT_MAX)
    }
  })
})
