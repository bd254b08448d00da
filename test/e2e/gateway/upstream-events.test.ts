/** Reports of failing targets for operators: log lines, and `/status`. */

import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { startTestGateway, type TestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

const upstreamLines = (gateway: TestGateway) =>
  gateway.logged().filter(({ event }) => String(event).startsWith('upstream.'))

async function ask(gateway: TestGateway): Promise<number> {
  const { statusCode, body } = await request(gateway.url)
  await body.dump()
  return statusCode
}

describe('a target that fails', () => {
  test('leaves a trace though retries hide it', async () => {
    const alive = await startUpstream()
    const dead = `http://127.0.0.1:${await freePort()}`
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [alive.url, dead] } },
      log: { nodeId: 'node-7' },
    })
    for (let count = 0; count < 14; count += 1) expect(await ask(gateway)).toBe(200)
    const where = { level: 'warn', upstream: 'api', target: dead, node_id: 'node-7' }
    expect(upstreamLines(gateway)).toMatchObject([
      { event: 'upstream.failing', reason: 'ECONNREFUSED', ...where },
      { event: 'upstream.ejected', reason: 'ECONNREFUSED', failures: 5, for_ms: 10_000, ...where },
    ])
    expect(gateway.gateway.upstreams()).toEqual({
      api: [
        { target: alive.url, state: 'healthy', failuresInRow: 0, inFlight: 0, waiting: 0 },
        {
          target: dead,
          state: 'ejected',
          ejectedUntil: expect.stringMatching(/Z$/),
          failuresInRow: 5,
          lastFailure: { reason: 'ECONNREFUSED', at: expect.stringMatching(/Z$/) },
          inFlight: 0,
          waiting: 0,
        },
      ],
    })
  })

  test('and comes back has a line for that', async () => {
    let isBroken = true
    const target = await startUpstream((_request, response) => {
      response.statusCode = isBroken ? 503 : 200
      response.end()
    })
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [target.url], ejection: { after: 2, for: '100ms' } } },
    })
    for (let count = 0; count < 4; count += 1) await ask(gateway)
    isBroken = false
    await until('it is back', async () => {
      await ask(gateway)
      return upstreamLines(gateway).at(-1)?.event === 'upstream.recovered'
    })
    const [first, ...others] = upstreamLines(gateway)
    expect(first).toMatchObject({ event: 'upstream.ejected', reason: 'status 503', failures: 2 })
    expect(others.at(-1)).toMatchObject({ target: target.url, down_ms: expect.any(Number) })
  })

  test('its health check has a line for each change', async () => {
    let isWell = false
    const target = await startUpstream((_request, response) => {
      response.statusCode = isWell ? 200 : 500
      response.end()
    })
    const healthCheck = { every: '20ms', timeout: '5s', unhealthyAfter: 2, healthyAfter: 2 }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [target.url], healthCheck } },
    })
    await until('it is found out', () => upstreamLines(gateway).length === 1)
    expect(gateway.gateway.upstreams()).toMatchObject({ api: [{ state: 'unhealthy' }] })
    isWell = true
    await until('it is healthy again', () => upstreamLines(gateway).length === 2)
    expect(upstreamLines(gateway)).toMatchObject([
      { event: 'upstream.unhealthy', reason: 'status 500', target: target.url },
      { event: 'upstream.healthy', upstream: 'api', target: target.url },
    ])
    expect(gateway.gateway.upstreams()).toMatchObject({ api: [{ state: 'healthy' }] })
  })
})

describe('the state of a target', () => {
  test('has the requests in flight, and those that wait', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const gateway = await startTestGateway({
      upstreams: {
        api: { targets: [upstream.url], connectionsMax: 2, clientShareMax: 1 },
      },
      gateway: { timeouts: { drain: '10ms' } },
    })
    const asked = [1, 2, 3].map(() => ask(gateway).catch(() => 0))
    await until('they are there', () => {
      const { api } = gateway.gateway.upstreams()
      const [state] = (api ?? []) as readonly { inFlight: number; waiting: number }[]
      return state?.inFlight === 2 && state.waiting === 1
    })
    await gateway.close()
    await Promise.all(asked)
    expect(upstreamLines(gateway)).toEqual([])
  })
})
