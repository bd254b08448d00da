/** One policy in one process with several listeners, and the rate limit service with a policy. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../support/servers/ports.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { request, rlsClient } from '../rls/rls-client.ts'
import { startBackend } from './gateway-process.ts'
import { startPolicyProcess } from './policy-process.ts'

const TOKEN = 'a-token-for-tests'

const environment = { TIDEGATE_TEST_TOKEN: TOKEN }

/** A process that stalls may miss a deadline, and would then admit by its fallback. */
const patient = { deadline: '5s' }

const perUser = (limit: number) => ({
  limits: [
    {
      name: 'per-user',
      key: { header: 'x-user' },
      otherwise: 'skip',
      limit,
      per: '1h',
      burst: limit,
    },
  ],
})

async function client(port: number) {
  const made = rlsClient(port)
  onTestFinished(() => made.close())
  return async (user: string) => {
    return (await made.ask(request('shop', [`x-user=${user}`]))).overall_code
  }
}

async function serve(limit: number, backendDelayMs = 0) {
  const backend = await startBackend(backendDelayMs)
  onTestFinished(() => backend.stop())
  const [port, apiPort, grpcPort, httpPort, debugPort, adminPort] = await Promise.all(
    Array.from({ length: 6 }, () => freePort()),
  )
  const at = (listenerPort: number | undefined) => ({ host: '127.0.0.1', port: listenerPort })
  const sections = {
    gateway: { listen: at(port), overload: { delay: '1m' } },
    upstreams: { api: { targets: [backend.url] } },
    decisionApi: { listen: at(apiPort), token: { env: 'TIDEGATE_TEST_TOKEN' } },
    rateLimitService: { listen: at(grpcPort), http: at(httpPort), debug: at(debugPort) },
    admin: { listen: at(adminPort) },
  }
  const service = await startPolicyProcess({
    command: 'serve',
    policy: { ...sections, ...perUser(limit) },
    ready: 'status: 127.0.0.1',
    environment,
  })
  const viaGateway = async (user: string) => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-user': user } })
    await response.arrayBuffer()
    return response.status
  }
  const viaApi = async (user: string) => {
    const response = await fetch(`http://127.0.0.1:${apiPort}/v1/check`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ request: { headers: { 'x-user': user } } }),
    })
    return ((await response.json()) as { allowed: boolean }).allowed
  }
  const viaEnvoy = await client(grpcPort ?? 0)
  const urls = {
    http: `http://127.0.0.1:${httpPort}`,
    debug: `http://127.0.0.1:${debugPort}`,
    admin: `http://127.0.0.1:${adminPort}`,
  }
  return { service, backend, sections, viaGateway, viaApi, viaEnvoy, urls }
}

describe('tidegate serve', () => {
  test('applies one limit with one counter through all listeners', async () => {
    const { service, viaGateway, viaApi, viaEnvoy, urls } = await serve(3)
    expect(await viaGateway('ada')).toBe(200)
    expect(await viaApi('ada')).toBe(true)
    expect(await viaEnvoy('ada')).toBe('OK')
    expect(await viaGateway('ada')).toBe(429)
    expect(await viaApi('ada')).toBe(false)
    expect(await viaEnvoy('ada')).toBe('OVER_LIMIT')
    expect(await viaEnvoy('bob')).toBe('OK')
    expect((await fetch(`${urls.http}/healthcheck`)).status).toBe(200)
    expect(await (await fetch(`${urls.debug}/rlconfig`)).text()).toMatch(/^per-user: \{/)
    expect((await fetch(`${urls.admin}/ready`)).status).toBe(200)
    expect(service.output()).toContain('tidegate: rate limit service: 127.0.0.1:')
  })

  test('applies a changed policy everywhere at once', async () => {
    const { service, sections, viaGateway, viaApi, viaEnvoy, urls } = await serve(1)
    expect(await viaEnvoy('ada')).toBe('OK')
    expect(await viaGateway('ada')).toBe(429)
    service.write({ ...sections, ...perUser(4) })
    await until('it is live', () => service.output().includes('policy.applied'))
    expect(await viaGateway('ada')).toBe(200)
    expect(await viaEnvoy('ada')).toBe('OK')
    expect(await viaApi('ada')).toBe(true)
    expect(await viaEnvoy('ada')).toBe('OVER_LIMIT')
    const stats = await (await fetch(`${urls.debug}/stats`)).text()
    expect(stats).toContain('ratelimit.service.config_load_success: 2')
  })

  test('starts the decision API alone if there are no upstreams', async () => {
    const port = await freePort()
    const service = await startPolicyProcess({
      command: 'serve',
      policy: {
        ...perUser(1),
        decisionApi: { listen: { port }, token: { env: 'TIDEGATE_TEST_TOKEN' } },
      },
      ready: `decision API: 127.0.0.1:${port}`,
      environment,
    })
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200)
    expect(service.output()).not.toContain('gateway:')
    expect(await service.stop()).toBe(0)
  })

  test('ends with 0 and finishes open requests', async () => {
    const { service, backend, viaGateway } = await serve(100, 300)
    let arrived = 0
    backend.server.on('request', () => arrived++)
    const open = Array.from({ length: 10 }, () => viaGateway('ada'))
    await until('all have arrived', () => arrived === 10)
    const code = service.stop()
    expect(await Promise.all(open)).toEqual(Array.from({ length: 10 }, () => 200))
    expect(await code).toBe(0)
  })
})

describe('tidegate rls with a policy', () => {
  test('counts in the store of the policy, and follows the file', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], ...patient }
    const start = async () => {
      const grpcPort = await freePort()
      const listen = { host: '127.0.0.1', port: grpcPort }
      const sections = { store, rateLimitService: { listen } }
      const rls = await startPolicyProcess({
        command: 'rls',
        policy: { ...sections, ...perUser(2) },
        ready: `tidegate rls: 127.0.0.1:${grpcPort}`,
        environment: {
          HOST: '127.0.0.1',
          PORT: String(await freePort()),
          DEBUG_PORT: String(await freePort()),
          LOG_LEVEL: 'info',
        },
      })
      return { rls, sections, ask: await client(grpcPort) }
    }
    const [one, other] = [await start(), await start()]
    expect(await one.ask('ada')).toBe('OK')
    expect(await other.ask('ada')).toBe('OK')
    expect(await one.ask('ada')).toBe('OVER_LIMIT')
    one.rls.write({ ...one.sections, ...perUser(3) })
    await until('it is live', () => one.rls.output().includes('configuration loaded, limits: 1'))
    expect(await one.ask('ada')).toBe('OK')
    expect(await one.rls.stop()).toBe(0)
  })
})
