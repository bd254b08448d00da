/** The first programs of a newcomer: the demo, the gateway, and a cluster to try things. */

import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { run, start } from './example-process.ts'

describe('the demo', () => {
  test('admits ten of twelve, and says when to come back', async () => {
    // One in 50 s: a machine that stands still for seconds admits no other request.
    const { code, text } = await run('examples/demo.ts', [], { REFILL_RATE: '0.02' })
    expect(code, text).toBe(0)
    const lines = text.split('\n').filter((line) => line.startsWith('Request '))
    const admitted = Array.from(
      { length: 10 },
      (_, at) => `Request ${at + 1}: 200 OK (remaining: ${9 - at})`,
    )
    expect(lines).toEqual([
      ...admitted,
      expect.stringMatching(/^Request 11: 429 Too Many Requests \(retry after: (50|[1-4]\d)s\)$/),
      expect.stringMatching(/^Request 12: 429 Too Many Requests \(retry after: (50|[1-4]\d)s\)$/),
    ])
    expect(text).toContain('Redis is not configured')
  })

  test('prints the effect of its settings', async () => {
    const port = await freePort()
    const small = await run('examples/demo.ts', [], { BUCKET_SIZE: '5', PORT: String(port) })
    expect(small.text).toContain('where a client may send 5 at once')
    expect(small.text).toContain('429 Too Many Requests (retry after: 1s)')
    expect(small.text).toContain(`12 requests to http://127.0.0.1:${port}/api/resource`)
    const off = await run('examples/demo.ts', [], { TIDEGATE_ENABLED: '0' })
    expect(off.text).toContain('Request 12: 200 OK (not limited)')
    const wrong = await run('examples/demo.ts', [], { BUCKET_SIZE: 'many' })
    expect(wrong.code).toBe(1)
    expect(wrong.text).toContain('BUCKET_SIZE="many" is not allowed')
    expect(wrong.text).not.toContain('    at ')
  })

  test('reports that the configured port is in use', async () => {
    const port = await freePort()
    const other = createServer().listen(port, '127.0.0.1')
    await once(other, 'listening')
    const taken = await run('examples/demo.ts', [], { PORT: String(port) })
    other.close()
    expect(taken).toMatchObject({ code: 1 })
    expect(taken.text).toContain(`port ${port} is in use; stop what listens there, or set PORT`)
  })

  test('leaves nothing behind when its output is closed', async () => {
    const { child, printed } = start('examples/demo.ts', [], {})
    // From the start: while this process stalls, the demo may end.
    const exited = once(child, 'exit')
    await until('the backend runs', () => printed.text.includes('backend: http'))
    child.stdout.destroy()
    const [code] = (await exited) as [number]
    expect(code).toBe(0)
    const url = /backend: (http:\S+)/.exec(printed.text)?.[1] ?? ''
    await expect(fetch(url)).rejects.toThrow('fetch failed')
  })

  test('says that Redis does not answer', async () => {
    const redis = { REDIS_MODE: 'standalone', REDIS_ADDR: `127.0.0.1:${await freePort()}` }
    const { text } = await run('examples/demo.ts', [], redis)
    expect(text).toContain('tidegate: Redis does not answer')
    expect(text).toContain('Request 12: 200 OK (not counted: Redis does not answer)')
  })
})

describe('the gateway and its backend', () => {
  test('run until they are stopped', async () => {
    const [port, backendPort] = [await freePort(), await freePort()]
    // One in 50 s: a machine that stands still for seconds admits no other request.
    const bucket = { BUCKET_SIZE: '3', REFILL_RATE: '0.02' }
    const environment = { PORT: String(port), BACKEND_PORT: String(backendPort), ...bucket }
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
  const cluster = (command: string, port: number | string) =>
    run('examples/cluster/main.ts', [command], { CLUSTER_PORT: String(port) })

  test('leaves nothing behind if a port is in use', async () => {
    const first = await freePort()
    const other = createServer().listen(first + 3, '127.0.0.1')
    await once(other, 'listening')
    const refused = await cluster('start', first)
    other.close()
    expect(refused).toMatchObject({ code: 1 })
    expect(refused.text).toContain(`port ${first + 3} is in use`)
    expect((await cluster('stop', first)).text).toContain('No cluster runs')
  })

  test('refuses a first port that is none', async () => {
    expect((await cluster('start', 'abc')).text).toContain('CLUSTER_PORT="abc" is not allowed')
  })
})
