/** The gateway as a process: a policy file that changes, signals, workers. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { programFile } from '../../support/program.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import {
  type GatewayProcess,
  type GatewayProcessOptions,
  startBackend,
  startGatewayProcess,
} from './gateway-process.ts'

/** A client sends up to 200 requests per second, hundreds while a policy changes. */
const LOAD_PAUSE_MS = 5

const stops: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop()
})

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

/** Counters belong to the name of their limit. */
const perIp = (limit: number, name = 'client') => ({
  limits: [{ name, key: 'ip', otherwise: 'deny', limit, per: '1h' }],
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

/** Clients that send one request after another until `stop`, which returns all statuses. */
function startLoad(url: string, clients: number) {
  let [isOver, served] = [false, 0]
  const client = async () => {
    const seen: number[] = []
    while (!isOver) {
      seen.push(...(await statuses(url, 1)))
      served += 1
      await pause(LOAD_PAUSE_MS)
    }
    return seen
  }
  const loads = Array.from({ length: clients }, client)
  return {
    /** Waits until this many more requests were served. */
    async goesOn(count: number) {
      const before = served
      await until('requests are served', () => served >= before + count)
    },
    async stop() {
      isOver = true
      return (await Promise.all(loads)).flat()
    },
  }
}

/**
 * One process for the tests that only change its policy, because a start takes a second. Each uses
 * a limit with a name of its own, and with it counters of its own.
 */
describe('a running gateway', () => {
  let shared: GatewayProcess
  let upstream: { upstreams: { api: { targets: string[] } } }

  beforeAll(async () => {
    const api = await startBackend()
    upstream = { upstreams: { api: { targets: [api.url] } } }
    shared = await startGatewayProcess({ policy: { ...upstream, ...perIp(2, 'first') } })
    return async () => {
      await shared.stop()
      await api.stop()
    }
  })

  async function apply(policy: object): Promise<void> {
    const before = (await shared.status()).policy.version
    shared.write({ ...upstream, ...policy })
    await until('it is live', async () => (await shared.status()).policy.version !== before)
  }

  /** The problems of a policy that is refused, and the version that stays. */
  async function refused(policy: object | string) {
    shared.write(policy)
    return await until('it is refused', async () => {
      const found = (await shared.status()).policy
      return found.refused === undefined ? undefined : found
    })
  }

  /** The output from now on. */
  function outputFromHere(): () => string {
    const { length } = shared.output()
    return () => shared.output().slice(length)
  }

  test('has the state of every target for operators', async () => {
    const [target] = upstream.upstreams.api.targets
    expect((await shared.status()).upstreams).toEqual({
      api: [{ target, state: 'healthy', failuresInRow: 0, inFlight: 0, waiting: 0 }],
    })
  })

  test('starts with a line that has the addresses that are listened on', async () => {
    await until('it is printed', () => shared.output().includes(`gateway: ${shared.url} → `))
    expect(shared.output()).toContain(`status: 127.0.0.1:${shared.adminPort}\n`)
    const port = await freePort()
    const all = await gateway({ policy: { gateway: { listen: { port } }, ...perIp(2) }, port })
    const line = `gateway: http://localhost:${port}, on all addresses → `
    await until('it is printed', () => all.output().includes(line))
  })

  test('applies a changed policy without a restart, and keeps the counters', async () => {
    await apply(perIp(2, 'kept'))
    expect(await statuses(shared.url, 3)).toEqual([200, 200, 429])
    await apply(perIp(4, 'kept'))
    expect(await statuses(shared.url, 3)).toEqual([200, 200, 429])
  })

  test('rejects an invalid policy with its problems, and the old one stays', async () => {
    await apply(perIp(2, 'valid'))
    const output = outputFromHere()
    const before = (await shared.status()).policy.version
    const policy = await refused('limits: [{ name: x, limit: many }]')
    expect(policy.version).toBe(before)
    expect(policy.refused?.join('\n')).toContain('limits[0].limit')
    await until('it is logged', () => output().includes('policy.refused'))
    expect(await statuses(shared.url, 3)).toEqual([200, 200, 429])
  })

  test('refuses a policy as a whole that is valid and cannot be used', async () => {
    await apply(perIp(2, 'whole'))
    const before = (await shared.status()).policy.version
    shared.writeBeside('keys.yaml', '[]\n')
    const apiKeys = { secret: { env: 'TIDEGATE_NOT_SET' }, file: 'keys.yaml' }
    const policy = await refused({ ...upstream, ...perIp(1, 'whole'), auth: { apiKeys } })
    expect(policy.version).toBe(before)
    expect(policy.refused).toEqual([
      'auth.apiKeys.secret: the environment variable TIDEGATE_NOT_SET is not set',
    ])
    expect(await statuses(shared.url, 3)).toEqual([200, 200, 429])
  })

  test('reports a policy that needs a restart, until it matches the running one', async () => {
    await apply(perIp(2, 'restart'))
    const output = outputFromHere()
    const change = (other: object) => apply({ ...perIp(2, 'restart'), ...other })
    const listen = { host: '127.0.0.1', port: shared.port }
    const changed = { listen, transport: 'node', bodyBytesMax: '1mb' }
    await change({ gateway: changed, log: { level: 'warn' } })
    await change({})
    await change({ gateway: { listen, headers: 'none' } })
    await until('it is logged', () => output().includes('policy.needs_restart'))
    const lines = output()
      .split('\n')
      .filter((line) => line.includes('policy.needs_restart'))
    expect(lines.map((line) => JSON.parse(line).sections)).toEqual([
      ['gateway.transport', 'gateway.bodyBytesMax', 'log.level'],
    ])
  })

  test('logs a policy as a warning that removes all limits', async () => {
    await apply(perIp(1, 'removed'))
    const output = outputFromHere()
    expect(await statuses(shared.url, 2)).toEqual([200, 429])
    // Refused because it does not mention limits.
    await refused(upstream)
    expect(await statuses(shared.url, 1)).toEqual([429])
    shared.write({ ...upstream, limits: [] })
    await until('it is logged', () => output().includes('policy.unlimited'))
    const logged = output().split('\n')
    const line = logged.find((entry) => entry.includes('policy.unlimited')) ?? '{}'
    expect(JSON.parse(line)).toMatchObject({ level: 'warn', limits_before: 1 })
    expect(await statuses(shared.url, 2)).toEqual([200, 200])
  })

  test('drops no request while the policy changes again and again', async () => {
    await apply(perIp(1_000_000, 'many'))
    const load = startLoad(shared.url, 3)
    for (let change = 1; change <= 3; change++) {
      await apply(perIp(1_000_000 + change, 'many'))
      await load.goesOn(7)
    }
    const seen = await load.stop()
    expect(seen.length).toBeGreaterThan(20)
    expect(seen.every((code) => code === 200)).toBe(true)
  })

  test('has its port for itself: another reports it in one line', async () => {
    const { code, text } = await runGateway({ PORT: String(shared.port) })
    expect(code).toBe(1)
    expect(text).toContain(`tidegate gateway: port ${shared.port} is in use; stop what listens`)
    expect(text).not.toContain('    at ')
  })
})

describe('stopping', () => {
  test('finishes requests under way and ends with 0', async () => {
    const api = await startBackend(300)
    stops.push(() => api.stop())
    let arrived = 0
    api.server.on('request', () => arrived++)
    const upstream = { upstreams: { api: { targets: [api.url] } } }
    const started = await gateway({ policy: { ...upstream, ...perIp(100) } })
    const answers = Array.from({ length: 20 }, () => fetch(started.url))
    await until('all are under way', () => arrived === 20)
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
    // A process that stalls may miss a deadline, and would then admit by its fallback.
    const patient = { ...store, deadline: '5s' }
    const policy = { ...upstream, store: patient, ...perIp(50) }
    const started = await gateway({ policy, args: ['--workers', '2'] })
    const all = await Promise.all(Array.from({ length: 10 }, () => statuses(started.url, 10)))
    expect(all.flat().filter((code) => code === 200)).toHaveLength(50)

    const load = startLoad(started.url, 2)
    started.child.kill('SIGHUP')
    await until('all are restarted', () => started.output().includes('restarted 2 workers'))
    await load.goesOn(11)
    const seen = await load.stop()
    expect(seen.length).toBeGreaterThan(10)
    expect(seen.filter((code) => code !== 429 && code !== 200)).toEqual([])
    // All workers, also later ones, count as one gateway.
    expect([...names]).toEqual([expect.stringMatching(/^1\.1 tidegate-/)])
    expect(await started.stop()).toBe(0)
  })
})

test('a setting that does not fit is reported in one line', async () => {
  const { code, text } = await runGateway({ BUCKET_SIZE: 'ten' })
  const allowed = 'allowed: a whole number from 1 to 1000000000'
  expect({ code, text }).toEqual({
    code: 1,
    text: `tidegate gateway: BUCKET_SIZE="ten" is not allowed; ${allowed}\n`,
  })
})

async function runGateway(environment: Readonly<Record<string, string>>) {
  const program = programFile
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
