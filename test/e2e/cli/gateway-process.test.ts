/** The gateway as a process: a policy file that changes, signals, workers. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { type GatewayProcessOptions, startBackend, startGatewayProcess } from './gateway-process.ts'

const stops: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

async function backend(delayMs = 0) {
  const started = await startBackend(delayMs)
  stops.push(() => started.stop())
  return { upstreams: { api: { targets: [started.url] } } }
}

async function gateway(options: GatewayProcessOptions) {
  const started = await startGatewayProcess(options)
  stops.push(() => started.stop())
  return started
}

async function redis(): Promise<{ server: RedisServer; store: object }> {
  const server = await startRedis()
  stops.push(() => server.stop())
  return { server, store: { mode: 'standalone', addresses: [`${server.host}:${server.port}`] } }
}

const perIp = (limit: number) => ({
  limits: [{ name: 'client', key: 'ip', otherwise: 'deny', limit, per: '1h' }],
})

async function statuses(url: string, count: number): Promise<number[]> {
  const found: number[] = []
  for (let sent = 0; sent < count; sent++) {
    const response = await fetch(url)
    await response.arrayBuffer()
    found.push(response.status)
  }
  return found
}

describe('the listener for operators', () => {
  test('has the state of every target', async () => {
    const upstream = await backend()
    const { status } = await gateway({ policy: { ...upstream, ...perIp(2) } })
    const [target] = upstream.upstreams.api.targets
    expect((await status()).upstreams).toEqual({
      api: [{ target, state: 'healthy', failuresInRow: 0, inFlight: 0, waiting: 0 }],
    })
  })
})

describe('the start line', () => {
  test('has the addresses that are listened on', async () => {
    const one = await gateway({ policy: { ...(await backend()), ...perIp(2) } })
    await until('it has said so', () => one.output().includes(`gateway: ${one.url} → `))
    expect(one.output()).toContain(`status: 127.0.0.1:${one.adminPort}\n`)
    const port = await freePort()
    const all = await gateway({ policy: { gateway: { listen: { port } }, ...perIp(2) }, port })
    const line = `gateway: http://localhost:${port}, on all addresses → `
    await until('it has said so', () => all.output().includes(line))
  })
})

describe('a policy file that changes', () => {
  test('applies without a restart, and keeps the counters', async () => {
    const upstream = await backend()
    const { url, write, status } = await gateway({ policy: { ...upstream, ...perIp(2) } })
    expect(await statuses(url, 3)).toEqual([200, 200, 429])
    const before = (await status()).policy.version
    write({ ...upstream, ...perIp(4) })
    await until('the new policy is live', async () => (await status()).policy.version !== before)
    expect(await statuses(url, 3)).toEqual([200, 200, 429])
  })

  test('is rejected with its problems if it is invalid, and the old one stays', async () => {
    const upstream = await backend()
    const started = await gateway({ policy: { ...upstream, ...perIp(2) } })
    const before = (await started.status()).policy.version
    started.write('limits: [{ name: x, limit: many }]')
    const { policy } = await until('the problem is reported', async () => {
      const found = await started.status()
      return found.policy.refused === undefined ? undefined : found
    })
    expect(policy.version).toBe(before)
    expect(policy.refused?.join('\n')).toContain('limits[0].limit')
    await until('it is logged', () => started.output().includes('policy.refused'))
    expect(await statuses(started.url, 3)).toEqual([200, 200, 429])
  })

  test('is refused as a whole if it is valid and cannot be used', async () => {
    const upstream = await backend()
    const started = await gateway({ policy: { ...upstream, ...perIp(2) } })
    const before = (await started.status()).policy.version
    started.writeBeside('keys.yaml', '[]\n')
    const apiKeys = { secret: { env: 'TIDEGATE_NOT_SET' }, file: 'keys.yaml' }
    started.write({ ...upstream, ...perIp(1), auth: { apiKeys } })
    const { policy } = await until('it is refused', async () => {
      const found = await started.status()
      return found.policy.refused === undefined ? undefined : found
    })
    expect(policy.version).toBe(before)
    expect(policy.refused).toEqual([
      'auth.apiKeys.secret: the environment variable TIDEGATE_NOT_SET is not set',
    ])
    expect(await statuses(started.url, 3)).toEqual([200, 200, 429])
  })

  test('is reported if it needs a restart, until it matches the running one', async () => {
    const policy = { ...(await backend()), ...perIp(2) }
    const { write, status, output, port } = await gateway({ policy })
    const change = async (other: object) => {
      const before = (await status()).policy.version
      write({ ...policy, ...other })
      await until('it is live', async () => (await status()).policy.version !== before)
    }
    const listen = { host: '127.0.0.1', port }
    const changed = { listen, transport: 'node', bodyBytesMax: '1mb' }
    await change({ gateway: changed, log: { level: 'warn' } })
    await change({})
    await change({ gateway: { listen, headers: 'none' } })
    const lines = output()
      .split('\n')
      .filter((line) => line.includes('policy.needs_restart'))
    expect(lines.map((line) => JSON.parse(line).sections)).toEqual([
      ['gateway.transport', 'gateway.bodyBytesMax', 'log.level'],
    ])
  })

  test('is logged as a warning if it removes all limits', async () => {
    const upstream = await backend()
    const started = await gateway({ policy: { ...upstream, ...perIp(1) } })
    expect(await statuses(started.url, 2)).toEqual([200, 429])
    started.write(upstream)
    await until('it is refused without a word about limits', async () => {
      return (await started.status()).policy.refused !== undefined
    })
    expect(await statuses(started.url, 1)).toEqual([429])
    started.write({ ...upstream, limits: [] })
    await until('it is logged', () => started.output().includes('policy.unlimited'))
    const lines = started.output().split('\n')
    const logged = lines.find((line) => line.includes('policy.unlimited')) ?? '{}'
    expect(JSON.parse(logged)).toMatchObject({ level: 'warn', limits_before: 1 })
    expect(await statuses(started.url, 2)).toEqual([200, 200])
  })

  test('drops no request while it changes again and again', async () => {
    const upstream = await backend()
    const { url, write, status } = await gateway({ policy: { ...upstream, ...perIp(1_000_000) } })
    let isChanging = true
    const load = async () => {
      const seen: number[] = []
      while (isChanging) seen.push(...(await statuses(url, 5)))
      return seen
    }
    const loads = [load(), load(), load()]
    for (let change = 1; change <= 3; change++) {
      const before = (await status()).policy.version
      write({ ...upstream, ...perIp(1_000_000 + change) })
      await until('it is live', async () => (await status()).policy.version !== before)
    }
    isChanging = false
    const seen = (await Promise.all(loads)).flat()
    expect(seen.length).toBeGreaterThan(20)
    expect(seen.every((code) => code === 200)).toBe(true)
  })
})

describe('stopping', () => {
  test('finishes requests under way and ends with 0', async () => {
    const upstream = await backend(300)
    const started = await gateway({ policy: { ...upstream, ...perIp(100) } })
    const answers = Array.from({ length: 20 }, () => fetch(started.url))
    await until('they are under way', async () => {
      return (await fetch(`${started.url}/health`)).ok
    })
    const code = started.stop()
    const codes = (await Promise.all(answers)).map(({ status }) => status)
    expect(codes).toEqual(Array.from({ length: 20 }, () => 200))
    expect(await code).toBe(0)
  })
})

describe('several workers', () => {
  test('share a limit exactly, and restart one by one under load without a loss', async () => {
    const api = await startBackend()
    stops.push(() => api.stop())
    const upstream = { upstreams: { api: { targets: [api.url] } } }
    const names = new Set<string | undefined>()
    api.server.on('request', ({ headers }) => names.add(headers.via))
    const { store } = await redis()
    // A process that just started may miss a deadline, and would then admit by its fallback.
    const patient = { ...store, deadline: '1s' }
    const policy = { ...upstream, store: patient, ...perIp(50) }
    const started = await gateway({ policy, args: ['--workers', '2'] })
    const all = await Promise.all(Array.from({ length: 10 }, () => statuses(started.url, 10)))
    expect(all.flat().filter((code) => code === 200)).toHaveLength(50)

    let isRestarting = true
    const load = async () => {
      const seen: number[] = []
      while (isRestarting) seen.push(...(await statuses(started.url, 5)))
      return seen
    }
    const loads = [load(), load()]
    started.child.kill('SIGHUP')
    await until('all are restarted', () => started.output().includes('restarted 2 workers'))
    isRestarting = false
    const seen = (await Promise.all(loads)).flat()
    expect(seen.length).toBeGreaterThan(10)
    expect(seen.filter((code) => code !== 429 && code !== 200)).toEqual([])
    // All workers, also later ones, count as one gateway.
    expect([...names]).toEqual([expect.stringMatching(/^1\.1 tidegate-/)])
    expect(await started.stop()).toBe(0)
  })
})

describe('errors are printed in one line', () => {
  async function run(environment: Readonly<Record<string, string>>) {
    const program = join(repositoryRoot, 'packages/server/src/main.ts')
    const args = ['--disable-warning=ExperimentalWarning', program, 'gateway']
    const env = { ...process.env, ...environment }
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
    let text = ''
    child.stderr.on('data', (part: Buffer) => {
      text += part.toString()
    })
    const [code] = (await once(child, 'close')) as [number]
    return { code, text }
  }

  test('a port that is in use', async () => {
    const started = await gateway({ policy: { ...(await backend()), ...perIp(1) } })
    const { code, text } = await run({ PORT: String(started.port) })
    expect(code).toBe(1)
    expect(text).toContain(`tidegate gateway: port ${started.port} is in use; stop what listens`)
    expect(text).not.toContain('    at ')
  })

  test('a setting that does not fit', async () => {
    const { code, text } = await run({ BUCKET_SIZE: 'ten' })
    const allowed = 'allowed: a whole number from 1 to 1000000000'
    expect({ code, text }).toEqual({
      code: 1,
      text: `tidegate gateway: BUCKET_SIZE="ten" is not allowed; ${allowed}\n`,
    })
  })
})
