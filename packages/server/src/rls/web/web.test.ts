import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { request } from '../../../../../test/e2e/rls/rls-client.ts'
import { startTestRls } from '../../../../../test/e2e/rls/rls-server.ts'
import { freePort } from '../../../../../test/support/servers/ports.ts'
import { until } from '../../../../../test/support/servers/until.ts'

const config = `
domain: shop
descriptors:
  - key: tenant
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: tried
    value: "1"
    shadow_mode: true
    descriptors:
      - key: path
        rate_limit: { unit: day, requests_per_unit: 3 }
  - key: remote_address
    detailed_metric: true
    rate_limit: { unit: minute, requests_per_unit: 100 }
  - key: free
    rate_limit: { unlimited: true }
`

const json = (key: string, value: string) =>
  JSON.stringify({ domain: 'shop', descriptors: [{ entries: [{ key, value }] }] })

async function post(url: string, body: string | Buffer) {
  const response = await fetch(url, { method: 'POST', body })
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    text: await response.text(),
  }
}

describe('/json', () => {
  test('returns 200 within the limit and 429 beyond it', async () => {
    const { http } = await startTestRls(config)
    const first = await post(`${http}/json`, json('tenant', 'a'))
    expect(first).toMatchObject({ status: 200, type: 'application/json' })
    expect(JSON.parse(first.text)).toMatchObject({
      overallCode: 'OK',
      statuses: [{ code: 'OK', currentLimit: { requestsPerUnit: 1, unit: 'HOUR' } }],
    })
    const second = await post(`${http}/json`, json('tenant', 'a'))
    expect(second.status).toBe(429)
    expect(JSON.parse(second.text)).toMatchObject({ overallCode: 'OVER_LIMIT' })
    expect((await post(`${http}/json`, json('tenant', 'b'))).status).toBe(200)
  })

  test.each([
    ['an empty body', ''],
    ['invalid JSON', '}'],
    ['an array', '[1]'],
    ['entries that are a number', '{"domain":"shop","descriptors":[{"entries":5}]}'],
    ['invalid UTF-8', Buffer.from([0xff, 0xfe])],
    ['a body that is too long', `"${'x'.repeat(300_000)}"`],
  ])('returns 400 for %s', async (_, body) => {
    const { http } = await startTestRls(config)
    expect(await post(`${http}/json`, body)).toMatchObject({ status: 400, text: 'Bad Request\n' })
    expect((await post(`${http}/json`, json('tenant', 'a'))).status).toBe(200)
  })

  test('returns the reason for an invalid request', async () => {
    const { http } = await startTestRls(config)
    expect(await post(`${http}/json`, '{}')).toMatchObject({
      status: 400,
      text: 'rate limit domain must not be empty\n',
    })
  })

  test('returns 503 and is unhealthy if the store does not respond', async () => {
    const addresses = [`127.0.0.1:${await freePort()}`]
    const { http } = await startTestRls(config, { store: { mode: 'standalone', addresses } })
    expect((await post(`${http}/json`, json('tenant', 'a'))).status).toBe(503)
    expect((await fetch(`${http}/healthcheck`)).status).toBe(500)
  })

  test('returns 503 until there is a configuration', async () => {
    const rls = await startTestRls('domain: [', { needsConfigToBeHealthy: true })
    expect(await post(`${rls.http}/json`, json('tenant', 'a'))).toMatchObject({
      status: 503,
      text: 'no rate limit configuration loaded\n',
    })
    rls.write('config.yaml', config)
    await until('it is healthy', async () => (await fetch(`${rls.http}/healthcheck`)).ok)
    expect((await post(`${rls.http}/json`, json('tenant', 'a'))).status).toBe(200)
  })
})

test('/healthcheck returns OK, and other paths are not found', async () => {
  const { http, debug } = await startTestRls(config)
  const response = await fetch(`${http}/healthcheck`)
  expect([response.status, await response.text()]).toEqual([200, 'OK'])
  for (const url of [
    `${http}/rlconfig`,
    `${http}/__proto__`,
    `${debug}/json`,
    `${debug}/toString`,
  ]) {
    expect((await fetch(url)).status).toBe(404)
  }
})

test('/rlconfig has a line for each limit', async () => {
  const { debug } = await startTestRls(`${config}  - key: burst
    rate_limit:
      unit: second
      requests_per_unit: 5
      algorithm: token_bucket
      burst: 9
      on_store_error: local
`)
  const modes = 'shadow_mode: false, quota_mode: false'
  const fixed = `${modes}, algorithm: fixed_window, on_store_error: error`
  expect(await (await fetch(`${debug}/rlconfig`)).text()).toBe(
    `shop.tenant: unit=HOUR requests_per_unit=1, ${fixed}
shop.tried_1.path: unit=DAY requests_per_unit=3, ${fixed}
shop.remote_address: unit=MINUTE requests_per_unit=100, ${fixed}
shop.free: unit=UNKNOWN requests_per_unit=0, ${modes}, unlimited: true
shop.burst: unit=SECOND requests_per_unit=5, ${modes}, algorithm: token_bucket, burst: 9, ` +
      'on_store_error: local\n',
  )
})

describe('metrics', () => {
  test('have the names of the reference', async () => {
    const rls = await startTestRls(config)
    const { client, debug } = rls
    for (let calls = 0; calls < 3; calls++) await client.ask(request('shop', ['tenant=a']))
    await client.ask(request('shop', ['tried=1', 'path=/x'], ['free=1']))
    await client.ask(request('shop', ['remote_address=10.0.0.1']))
    await client.ask(request('nowhere', ['tenant=a']))
    await expect(client.ask(request('', ['tenant=a']))).rejects.toThrow('must not be empty')
    const stats = (await (await fetch(`${debug}/stats`)).text()).split('\n')
    for (const line of [
      'ratelimit.service.rate_limit.shop.tenant.total_hits: 3',
      'ratelimit.service.rate_limit.shop.tenant.within_limit: 1',
      'ratelimit.service.rate_limit.shop.tenant.over_limit: 2',
      'ratelimit.service.rate_limit.shop.tenant.over_limit_with_local_cache: 0',
      'ratelimit.service.rate_limit.shop.free.unlimited: 1',
      'ratelimit.service.rate_limit.shop.free.total_hits: 0',
      'ratelimit.service.rate_limit.shop.tried_1.path.total_hits: 1',
      'ratelimit.service.rate_limit.shop.remote_address_10_0_0_1.total_hits: 1',
      'ratelimit.service.rate_limit.nowhere.domain_not_found: 1',
      'ratelimit.service.config_load_success: 1',
      'ratelimit.service.call.should_rate_limit.service_error: 1',
      'ratelimit_server.ShouldRateLimit.total_requests: 7',
    ]) {
      expect(stats).toContain(line)
    }
    const response = await fetch(`${debug}/metrics`)
    expect(response.headers.get('content-type')).toContain('text/plain')
    const lines = (await response.text()).split('\n')
    for (const line of [
      'ratelimit_service_rate_limit_total_hits{domain="shop",key1="tenant"} 3',
      'ratelimit_service_rate_limit_over_limit{domain="shop",key1="tenant"} 2',
      'ratelimit_service_rate_limit_over_limit_with_local_cache{domain="shop",key1="tenant"} 0',
      'ratelimit_service_rate_limit_unlimited{domain="shop",key1="free"} 1',
      'ratelimit_service_rate_limit_total_hits{domain="shop",key1="tried_1",key2="path"} 1',
      'ratelimit_service_config_load_success 1',
      'ratelimit_service_should_rate_limit_error{err_type="service_error"} 1',
      'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 7',
      '# TYPE ratelimit_service_response_time_seconds histogram',
      'ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 7',
    ]) {
      expect(lines).toContain(line)
    }
  })

  test('count a configuration that is refused', async () => {
    const rls = await startTestRls(config)
    rls.write('second.yaml', 'domain: shop')
    const stats = async () => (await fetch(`${rls.debug}/stats`)).text()
    const line = 'ratelimit.service.config_load_error: 1'
    await until('it is counted', async () => (await stats()).includes(line))
    expect((await rls.client.ask(request('shop', ['tenant=a']))).statuses[0]?.code).toBe('OK')
  })

  test('have one line each, also with line breaks in a value', async () => {
    const { client, debug } = await startTestRls(config)
    await client.ask(request('shop', ['remote_address=a\nb"} 5\u2028']))
    const stats = await (await fetch(`${debug}/stats`)).text()
    expect(stats).toContain('shop.remote_address_a?b"} 5?.total_hits: 1')
    const metrics = await (await fetch(`${debug}/metrics`)).text()
    expect(metrics).toContain('key1="remote_address_a\\nb\\"} 5')
  })

  test('have a separate port without other pages', async () => {
    const port = await freePort()
    const prometheus = { host: '127.0.0.1', port, path: '/prom' }
    await startTestRls(config, { prometheus })
    const text = await (await fetch(`http://127.0.0.1:${port}/prom`)).text()
    expect(text).toContain('ratelimit_service_config_load_success 1')
    expect((await fetch(`http://127.0.0.1:${port}/rlconfig`)).status).toBe(404)
  })
})

test('requests that are not HTTP end the connection, not the service', async () => {
  const { http } = await startTestRls(config)
  const { port } = new URL(http)
  for (const bytes of [
    '\x16\x03\x01\x00\xff\r\n\r\n',
    `GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
  ]) {
    await new Promise<void>((resolve) => {
      const socket = connect(Number(port), '127.0.0.1', () => socket.write(bytes))
      socket.on('error', () => undefined).on('close', () => resolve())
      socket.resume()
    })
  }
  expect((await fetch(`${http}/healthcheck`)).status).toBe(200)
})
