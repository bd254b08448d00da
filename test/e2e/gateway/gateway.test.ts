/** The gateway from end to end: real sockets, a real upstream, limits in memory. */

import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { askRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const twoPerHour = { name: 'per-ip', key: 'ip', limit: 2, per: '1h', algorithm: 'fixedWindow' }

describe('the gateway', () => {
  test('forwards a request and passes the answer on', async () => {
    const upstream = await startUpstream((_request, response) => {
      response.writeHead(201, 'Made', { 'x-from': 'upstream', 'set-cookie': ['a=1', 'b=2'] })
      response.end('hello')
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const response = await request(`${gateway.url}/things?q=1`, {
      method: 'POST',
      body: 'a body',
      headers: { 'x-mine': 'yes' },
    })
    expect(response.statusCode).toBe(201)
    expect(response.statusText).toBe('Made')
    expect(response.headers['x-from']).toBe('upstream')
    expect(response.headers['set-cookie']).toEqual(['a=1', 'b=2'])
    expect(await response.body.text()).toBe('hello')
    expect(upstream.seen).toHaveLength(1)
    expect(upstream.seen[0]).toMatchObject({
      method: 'POST',
      url: '/things?q=1',
      body: 'a body',
      headers: { 'x-mine': 'yes', 'content-length': '6' },
    })
  })

  test('refuses the third request of two with 429, which the upstream never sees', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [twoPerHour],
    })
    const statuses: number[] = []
    for (let count = 0; count < 3; count += 1) {
      const response = await request(gateway.url)
      statuses.push(response.statusCode)
      const body = await response.body.text()
      if (response.statusCode !== 429) continue
      expect(response.headers['content-type']).toBe('application/problem+json')
      expect(response.headers['retry-after']).toMatch(/^\d+$/)
      expect(response.headers['x-ratelimit-remaining']).toBe('0')
      expect(JSON.parse(body)).toMatchObject({ status: 429, 'violated-policies': ['per-ip'] })
    }
    expect(statuses).toEqual([200, 200, 429])
    expect(upstream.seen).toHaveLength(2)
  })

  test('reports the remaining units on upstream responses', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [twoPerHour],
    })
    const { headers, body } = await request(gateway.url)
    await body.dump()
    expect(headers['x-ratelimit-remaining']).toBe('1')
    expect(headers['ratelimit-policy']).toBe('"per-ip";q=2;w=3600')
  })

  test('answers health and readiness itself, without limits', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [{ ...twoPerHour, limit: 1 }],
    })
    for (const path of ['/health', '/ready', '/health', '/ready']) {
      const head = `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`
      expect((await askRaw(gateway.port, head)).status).toBe(200)
    }
    expect(upstream.seen).toHaveLength(0)
  })
})
