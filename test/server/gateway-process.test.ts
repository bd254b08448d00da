/** The gateway as people run it: a process, a policy file that changes, signals, workers. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { repositoryRoot } from '../source-file.ts'
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

describe('a policy file that changes', () => {
  test('applies without a restart, and keeps what was used', async () => {
    const upstream = await backend()
    const { url, write, status } = await gateway({ policy: { ...upstream, ...perIp(2) } })
    expect(await statuses(url, 3)).toEqual([200, 200, 429])
    const before = (await status()).policy.version
    write({ ...upstream, ...perIp(4) })
    await until('the new policy is live', async () => (await status()).policy.version !== before)
    expect(await statuses(url, 3)).toEqual([200, 200, 429])
  })

  test('is refused with its problems where it is wrong, and the old one stays', async () => {
    const upstream = await backend()
    const started = await gateway({ policy: { ...upstream, ...perIp(2) } })
    const before = (await started.status()).policy.version
    started.write('limits: [{ name: x, limit: many }]')
    const { policy } = await until('the problem is told', async () => {
      const found = await started.status()
      return found.policy.refused === undefined ? undefined : found
    })
    expect(policy.version).toBe(before)
    expect(policy.refused?.join('\n')).toContain('limits[0].limit')
    await until('it is logged', () => started.output().includes('policy.refused'))
    expect(await statuses(started.url, 3)).toEqual([200, 200, 429])
  })

  test('is told where it needs a restart, as long as it differs from what runs', async () => {
    const policy = { ...(await backend()), ...perIp(2) }
    const { write, status, output, port } = await gateway({ policy })
    const change = async (other: object) => {
      const before = (await status()).policy.version
      write({ ...policy, ...other })
      await until('it is live', async () => (await status()).policy.version !== before)
    }
    const listen = { host: '127.0.0.1', port }
    await change({ gateway: { listen, bodyBytesMax: '1mb' }, log: { level: 'warn' } })
    await change({})
    await change({ gateway: { listen, headers: 'none' } })
    const lines = output()
      .split('\n')
      .filter((line) => line.includes('policy.needs_restart'))
    expect(lines.map((line) => JSON.parse(line).sections)).toEqual([
      ['gateway.bodyBytesMax', 'log.level'],
    ])
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
  test('share a limit exactly, and are exchanged under load without a loss', async () => {
    const upstream = await backend()
    const { store } = await redis()
    // A process that has just started may be late, and would then admit as the limit declares.
    const patient = { ...store, deadline: '1s' }
    const policy = { ...upstream, store: patient, ...perIp(50) }
    const started = await gateway({ policy, args: ['--workers', '2'] })
    const all = await Promise.all(Array.from({ length: 10 }, () => statuses(started.url, 10)))
    expect(all.flat().filter((code) => code === 200)).toHaveLength(50)

    let isExchanging = true
    const load = async () => {
      const seen: number[] = []
      while (isExchanging) seen.push(...(await statuses(started.url, 5)))
      return seen
    }
    const loads = [load(), load()]
    started.child.kill('SIGHUP')
    await until('all are exchanged', () => started.output().includes('exchanged 2 workers'))
    isExchanging = false
    const seen = (await Promise.all(loads)).flat()
    expect(seen.length).toBeGreaterThan(10)
    expect(seen.filter((code) => code !== 429 && code !== 200)).toEqual([])
    expect(await started.stop()).toBe(0)
  })
})

describe('what is wrong is said in a line', () => {
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
