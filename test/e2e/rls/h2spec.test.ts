/**
 * h2spec, which checks an HTTP/2 server against RFC 9113 and RFC 7541 case by case. `./run.sh
 * test-envoy` installs it if the machine has Go.
 */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { startTestRls } from './rls-server.ts'

const places = [
  ...(process.env.TIDEGATE_H2SPEC === undefined ? [] : [process.env.TIDEGATE_H2SPEC]),
  join(repositoryRoot, '.tools/h2spec/h2spec'),
  'h2spec',
]

const h2spec = places.find((place) => spawnSync(place, ['--version']).status === 0)

// Skipped if h2spec is not installed.
test.skipIf(h2spec === undefined)('every case of h2spec passes', { timeout: 120_000 }, async () => {
  const { port } = await startTestRls('domain: d')
  const args = ['-h', '127.0.0.1', '-p', String(port), '-o', '2', '--strict']
  const child = spawn(h2spec ?? '', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  await once(child, 'close')
  const [, total, passed] = /(\d+) tests, (\d+) passed/.exec(output) ?? []
  expect(output.split('Failures:')[1] ?? '').toBe('')
  expect(Number(total)).toBeGreaterThan(140)
  expect(passed).toBe(total)
})
