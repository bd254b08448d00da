/** What a newcomer sees first: the demo, the gateway that runs on, and a cluster to try things. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
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

  test('says what the settings made of it', { timeout: SLOW_MS }, async () => {
    const small = await run('examples/demo.ts', [], { BUCKET_SIZE: '5' })
    expect(small.text).toContain('where a client may send 5 at once')
    const off = await run('examples/demo.ts', [], { RATE_LIMIT_ENABLED: 'false' })
    expect(off.text).toContain('Request 12: 200 OK (not limited)')
    const wrong = await run('examples/demo.ts', [], { BUCKET_SIZE: 'many' })
    expect(wrong.code).toBe(1)
    expect(wrong.text).toContain('BUCKET_SIZE="many" is not allowed')
    expect(wrong.text).not.toContain('    at ')
  })

  test('leaves nothing behind when nobody reads on', { timeout: SLOW_MS }, async () => {
    const { child, printed } = start('examples/demo.ts', [], {})
    await until('the backend runs', () => printed.text.includes('backend: http'))
    child.stdout.destroy()
    const [code] = (await once(child, 'exit')) as [number]
    expect(code).toBe(0)
    const url = /backend: (http:\S+)/.exec(printed.text)?.[1] ?? ''
    await expect(fetch(url)).rejects.toThrow('fetch failed')
  })

  test('says that Redis does not answer', { timeout: SLOW_MS }, async () => {
    const redis = { REDIS_MODE: 'standalone', REDIS_ADDR: `127.0.0.1:${await freePort()}` }
    const { text } = await run('examples/demo.ts', [], redis)
    expect(text).toContain('tidegate: Redis does not answer')
    expect(text).toContain('Request 12: 200 OK (not counted: Redis does not answer)')
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

    const third = await run('examples/serve.ts', [], { PORT: 'abc' })
    expect(third).toMatchObject({ code: 1 })
    expect(third.text).toContain('PORT="abc" is not allowed; allowed: a port from 1 to 65535')

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

  test('promotes a replica at once, and mends what was killed', { timeout: SLOW_MS }, async () => {
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
    await until('it is gone', async () => (await cluster('demo')).text.includes('nothing runs on'))
    const again = await cluster('start')
    expect(again.text).toContain(`Started again: ${first + 1}.`)
    await cluster('stop')
    expect(existsSync(join(folder, String(first + 1)))).toBe(false)
  })

  test('leaves nothing behind where a port is taken', { timeout: SLOW_MS }, async () => {
    const first = await freePort()
    environment.CLUSTER_PORT = String(first)
    const other = createServer().listen(first + 3, '127.0.0.1')
    await once(other, 'listening')
    const refused = await cluster('start')
    other.close()
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.text).toContain(`port ${first + 3} is in use`)
    expect((await cluster('stop')).text).toContain('No cluster runs')
  })

  test('refuses a first port that is none', async () => {
    environment.CLUSTER_PORT = 'abc'
    expect((await cluster('start')).text).toContain('CLUSTER_PORT="abc" is not allowed')
    environment.CLUSTER_PORT = '21000'
  })
})
