/** Every command of the example cluster, a failover and a new shard included. */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { run } from './example-process.ts'

const SLOW_MS = 300_000

describe('the cluster to try things on', () => {
  const environment = { CLUSTER_PORT: '21000' }
  const cluster = (command: string) => run('examples/cluster/main.ts', [command], environment)

  afterAll(() => cluster('stop'))

  test('starts, prints its state, grows by a shard, and stops', { timeout: SLOW_MS }, async () => {
    environment.CLUSTER_PORT = String(await freePort())
    expect((await cluster('status')).text).toContain('start it with: ./run.sh cluster-start')
    const started = await cluster('start')
    expect(started.code, started.text).toBe(0)
    // On a machine that stands still for seconds, a replica takes over.
    expect(started.text.match(/master {3}up/g)?.length).toBeGreaterThanOrEqual(3)
    expect(started.text.match(/(master|replica) +up/g)).toHaveLength(6)
    expect((await cluster('start')).text).toContain('runs already')
    const grown = await cluster('add-shard')
    expect(grown.code, grown.text).toBe(0)
    const lines = grown.text.split('\n').filter((line) => /^ +\d+ +\d+ +\d+ +\d+ +\d+ /.test(line))
    const failed = lines.map((line) => Number(line.trim().split(/ +/)[4]))
    expect(failed.every((count) => count === 0)).toBe(true)
    expect(grown.text.match(/master {3}up/g)?.length).toBeGreaterThanOrEqual(4)
    expect((await cluster('stop')).text).toContain('Stopped 8 nodes')
  })

  test('promotes a replica at once, and restarts killed nodes', { timeout: SLOW_MS }, async () => {
    environment.CLUSTER_PORT = String(await freePort())
    const shown = await cluster('demo')
    expect(shown.code, shown.text).toBe(0)
    expect(shown.text).toMatch(/replica on port \d+ promoted/)

    const first = Number(environment.CLUSTER_PORT)
    const folder = join(repositoryRoot, '.cache/cluster', String(first))
    process.kill(
      Number(readFileSync(join(folder, String(first + 1), 'redis.pid'), 'utf8')),
      'SIGKILL',
    )
    await until('the node has ended', async () =>
      (await cluster('demo')).text.includes('nothing runs on'),
    )
    const again = await cluster('start')
    expect(again.text).toContain(`Started again: ${first + 1}.`)
    await cluster('stop')
    expect(existsSync(join(folder, String(first + 1)))).toBe(false)
  })
})
