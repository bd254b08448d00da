/** What a newcomer sees first: the demo, the gateway that runs on, and a cluster to try things. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { freePort } from '../servers/ports.ts'
import { until } from '../servers/until.ts'
import { repositoryRoot } from '../source-file.ts'

const SLOW_MS = 90_000

function start(program: string, args: readonly string[], environment: Record<string, string>) {
  const path = join(repositoryRoot, program)
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', path, ...args], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const printed = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      printed.text += part.toString()
    })
  }
  return { child, printed }
}

async function run(program: string, args: readonly string[] = [], environment = {}) {
  const { child, printed } = start(program, args, environment)
  const [code] = (await once(child, 'close')) as [number]
  return { code, text: printed.text }
}

describe('the demo', () => {
  test('admits ten of twelve, and says when to come back', { timeout: SLOW_MS }, async () => {
    const { code, text } = await run('examples/demo.ts')
    expect(code).toBe(0)
    const lines = text.split('\n').filter((line) => line.startsWith('Request '))
    const admitted = Array.from(
      { length: 10 },
      (_, at) => `Request ${at + 1}: 200 OK (remaining: ${9 - at})`,
    )
    expect(lines).toEqual([
      ...admitted,
      'Request 11: 429 Too Many Requests (retry after: 1s)',
      'Request 12: 429 Too Many Requests (retry after: 1s)',
    ])
    expect(text).toContain('no Redis is configured')
  })
})

describe('the gateway and its backend', () => {
  test('run until they are told to stop', { timeout: SLOW_MS }, async () => {
    const [port, backendPort] = [await freePort(), await freePort()]
    const environment = { PORT: String(port), BACKEND_PORT: String(backendPort), BUCKET_SIZE: '3' }
    const { child, printed } = start('examples/serve.ts', [], environment)
    await until('it says how to try', () =>
      printed.text.includes(`curl -i http://127.0.0.1:${port}`),
    )
    const url = `http://127.0.0.1:${port}/api/resource`
    const echoed = await fetch(url, { method: 'POST', body: 'hello' })
    expect(await echoed.text()).toBe('hello')
    const codes: number[] = []
    for (let sent = 0; sent < 3; sent++) codes.push((await fetch(url)).status)
    expect(codes).toEqual([200, 200, 429])

    const second = await run('examples/serve.ts', [], environment)
    expect(second.code).toBe(1)
    expect(second.text).toContain(`port ${port} is in use; stop what listens there, or set PORT`)

    child.kill('SIGINT')
    const [code] = (await once(child, 'close')) as [number]
    expect(code).toBe(0)
    await expect(fetch(url)).rejects.toThrow('fetch failed')
  })
})

describe('the cluster to try things on', () => {
  const environment = { CLUSTER_PORT: '21000' }
  const cluster = (command: string) => run('examples/cluster/main.ts', [command], environment)

  afterAll(() => cluster('stop'))

  test('starts, tells its state, grows by a shard, and stops', { timeout: SLOW_MS }, async () => {
    environment.CLUSTER_PORT = String(await freePort())
    expect((await cluster('status')).text).toContain('start it with: ./run.sh cluster-start')
    const started = await cluster('start')
    expect(started.code, started.text).toBe(0)
    expect(started.text.match(/master {3}up/g)).toHaveLength(3)
    expect(started.text.match(/replica {2}up/g)).toHaveLength(3)
    expect((await cluster('start')).text).toContain('runs already')
    const grown = await cluster('add-shard')
    expect(grown.code, grown.text).toBe(0)
    const lines = grown.text.split('\n').filter((line) => /^ +\d+ +\d+ +\d+ +\d+ +\d+ /.test(line))
    const failed = lines.map((line) => Number(line.trim().split(/ +/)[4]))
    expect(failed.every((count) => count === 0)).toBe(true)
    expect(grown.text.match(/master {3}up/g)?.length).toBeGreaterThanOrEqual(4)
    expect((await cluster('stop')).text).toContain('Stopped 8 nodes')
  })
})
