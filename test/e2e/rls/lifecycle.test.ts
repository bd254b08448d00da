/** Reload, drain, old connections, TLS and the HTTP pages, with a stock client. */

import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect } from 'node:tls'
import { credentials } from '@grpc/grpc-js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { transports } from '../../../packages/server/src/rls/settings.ts'
import { makeCertificate } from '../../support/servers/certificates.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { block, frame, message, rawClient, requestFields, types } from './raw-http2.ts'
import { request } from './rls-client.ts'
import { startTestRls } from './rls-server.ts'

/** Hundreds of calls in a test, and a processor that is free for other tests meanwhile. */
const CALL_PAUSE_MS = 5

const config = (limit: number) => `
domain: d
descriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: ${limit} } }]
`

function tempFolder(): string {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  return folder
}

describe('a change of the configuration', () => {
  test('applies while calls go on, and keeps the counters', async () => {
    const rls = await startTestRls(config(10))
    const limitOf = async () => {
      const { statuses } = await rls.client.ask(request('d', ['k=a']))
      return statuses[0]?.current_limit?.requests_per_unit
    }
    expect(await limitOf()).toBe(10)
    let isOver = false
    const traffic = (async () => {
      let failed = 0
      while (!isOver) await rls.client.ask(request('d', ['k=b'])).catch(() => failed++)
      return failed
    })()
    rls.write('config.yaml', config(5))
    await until('it applies', async () => (await limitOf()) === 5)
    isOver = true
    expect(await traffic).toBe(0)
    const { statuses } = await rls.client.ask(request('d', ['k=a']))
    expect(statuses[0]?.limit_remaining).toBeLessThan(4)
  })

  test('that is wrong is refused, counted, and changes nothing', async () => {
    const rls = await startTestRls(config(10))
    rls.write('config.yaml', 'domain: d\ndescriptors: [{ value: x }]\n')
    await until('it is refused', () => rls.errors.length > 0)
    expect(rls.errors[0]).toEqual(new Error('config.yaml: descriptor has empty key'))
    const { statuses } = await rls.client.ask(request('d', ['k=a']))
    expect(statuses[0]?.current_limit?.requests_per_unit).toBe(10)
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('ratelimit.service.config_load_error: 1\n')
    expect(stats).toContain('ratelimit.service.config_load_success: 1\n')
  })
})

describe.each(transports)('over the transport %s', (transport) => {
  test('closing reports unhealthy first, finishes open calls, and ends', async () => {
    // Longer than the checks below take on a machine that stalls.
    const rls = await startTestRls(config(1_000_000), { transport, unhealthyMs: 5_000 })
    const raw = await rawClient(rls.port)
    const fields = requestFields.map(
      ([name, value]) => [name, name === ':path' ? '/grpc.health.v1.Health/Watch' : value] as const,
    )
    raw.send(
      frame(types.headers, 4, 1, block(fields)),
      frame(types.data, 1, 1, message(Buffer.alloc(0))),
    )
    const watched = (status: number) =>
      raw.next(`the watcher hears ${status}`, ({ type, payload }) => {
        return type === types.data && payload.equals(message(Buffer.from([8, status])))
      })
    await watched(1)
    let failed = 0
    let answered = 0
    const traffic = (async () => {
      while (failed === 0) {
        await rls.client.ask(request('d', ['k=b'])).then(
          () => answered++,
          () => failed++,
        )
        await sleep(CALL_PAUSE_MS)
      }
    })()
    await until('there is traffic', () => answered > 10)
    const closed = rls.rls.close()
    await watched(2)
    expect((await fetch(`${rls.http}/healthcheck`)).status).toBe(500)
    expect(await rls.client.health('ratelimit')).toBe('NOT_SERVING')
    expect(failed).toBe(0)
    await closed
    await traffic
    await expect(rls.client.ask(request('d', ['k=b']))).rejects.toMatchObject({ code: 14 })
  })

  test('a connection that is old enough is asked to go, and no call fails', async () => {
    const rls = await startTestRls(config(1_000_000), { transport, connectionAgeMs: 300 })
    const raw = await rawClient(rls.port)
    const goAway = await raw.next('GOAWAY comes', ({ type }) => type === types.goAway)
    expect(goAway.payload.readUInt32BE(4)).toBe(0)
    const endMs = Date.now() + 1_500
    while (Date.now() < endMs) {
      await rls.client.ask(request('d', ['k=b']))
      await sleep(CALL_PAUSE_MS)
    }
    await raw.untilClosed()
  })

  test('TLS with client certificates serves those that it knows', async () => {
    const folder = tempFolder()
    const { certFile, keyFile, ca } = makeCertificate(folder)
    const files = { cert: certFile, key: keyFile, clientCa: certFile, clientNames: ['localhost'] }
    const pem = Buffer.from(ca)
    const own = credentials.createSsl(pem, readFileSync(keyFile), pem)
    const client = { channel: own, host: 'localhost' }
    const rls = await startTestRls(config(5), { transport, tls: files }, client)
    expect((await rls.client.ask(request('d', ['k=a']))).overall_code).toBe('OK')
    const nobody = rls.another({ channel: credentials.createSsl(pem), host: 'localhost' })
    await expect(nobody.ask(request('d', ['k=a']))).rejects.toMatchObject({ code: 14 })
    const plain = rls.another()
    await expect(plain.ask(request('d', ['k=a']))).rejects.toMatchObject({ code: 14 })
  })

  test('a certificate for another name is refused', async () => {
    const { certFile, keyFile, ca } = makeCertificate(tempFolder())
    const files = { cert: certFile, key: keyFile, clientCa: certFile, clientNames: ['envoy'] }
    const pem = Buffer.from(ca)
    const channel = credentials.createSsl(pem, readFileSync(keyFile), pem)
    const rls = await startTestRls(
      config(5),
      { transport, tls: files },
      { channel, host: 'localhost' },
    )
    await expect(rls.client.ask(request('d', ['k=a']))).rejects.toMatchObject({ code: 14 })
  })

  test('a new certificate is taken without a restart', async () => {
    const folder = tempFolder()
    const { certFile, keyFile } = makeCertificate(folder)
    const tls = { cert: certFile, key: keyFile, clientCa: undefined, clientNames: [] }
    const rls = await startTestRls(config(5), { transport, tls })
    const before = await servedCertificate(rls.port)
    const renewed = makeCertificate(tempFolder())
    copyFileSync(renewed.keyFile, join(folder, 'server.key'))
    copyFileSync(renewed.certFile, join(folder, 'server.crt'))
    const served = await until('another is served', async () => {
      const now = await servedCertificate(rls.port)
      return now !== before && now
    })
    expect(served).toBe(new X509Certificate(renewed.ca).fingerprint256)
  })
})

/** The fingerprint of the certificate of a new connection. */
async function servedCertificate(port: number): Promise<string> {
  const socket = connect({
    port,
    host: '127.0.0.1',
    ALPNProtocols: ['h2'],
    rejectUnauthorized: false,
  })
  await once(socket, 'secureConnect')
  const { fingerprint256 } = socket.getPeerCertificate()
  socket.destroy()
  return fingerprint256
}

describe('over HTTP', () => {
  const post = async (url: string, body: string) => {
    const response = await fetch(`${url}/json`, { method: 'POST', body })
    return { status: response.status, text: await response.text() }
  }

  test('/json answers as gRPC does, with 200 and 429', async () => {
    const rls = await startTestRls(config(1))
    const body = JSON.stringify({
      domain: 'd',
      descriptors: [{ entries: [{ key: 'k', value: 'a' }] }],
    })
    const first = await post(rls.http, body)
    expect(first.status).toBe(200)
    expect(JSON.parse(first.text)).toMatchObject({
      overallCode: 'OK',
      statuses: [{ code: 'OK', currentLimit: { requestsPerUnit: 1, unit: 'HOUR' } }],
    })
    const second = await post(rls.http, body)
    expect(second.status).toBe(429)
    expect(JSON.parse(second.text)).toMatchObject({ overallCode: 'OVER_LIMIT' })
  })

  test('/json refuses a body that is not a request', async () => {
    const rls = await startTestRls(config(1))
    for (const body of ['', '}', '[]', '{"domain":1}', '{"domain":"d","descriptors":{}}']) {
      expect(await post(rls.http, body)).toEqual({ status: 400, text: 'Bad Request\n' })
    }
    expect((await post(rls.http, '{}')).status).toBe(400)
    expect((await post(rls.http, `"${'x'.repeat(300_000)}"`)).status).toBe(400)
  })

  test('values of requests make no metrics, and the number of metrics is bounded', async () => {
    const rls = await startTestRls(`
domain: d
descriptors:
  - { key: k, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - { key: v, detailed_metric: true, rate_limit: { unit: hour, requests_per_unit: 9 } }
`)
    const series = async () =>
      (await (await fetch(`${rls.debug}/metrics`)).text()).split('\n').length
    await rls.client.ask(request('d', ['k=a'], ['v=a']))
    await rls.client.ask(request('x', ['k=a']))
    const before = await series()
    const all = Array.from({ length: 2_000 }, (_, at) => rls.client.ask(request('d', [`k=${at}`])))
    await Promise.all(all)
    expect(await series()).toBe(before)
    const detailed = Array.from({ length: 2_000 }, (_, at) =>
      rls.client.ask(request('d', [`v=${at}`])),
    )
    const domains = Array.from({ length: 2_000 }, (_, at) =>
      rls.client.ask(request(`x${at}`, ['k=a'])),
    )
    await Promise.all([...detailed, ...domains])
    expect(await series()).toBeLessThan(8_000)
    const stats = await (await fetch(`${rls.debug}/stats`)).text()
    expect(stats).toContain('rate_limit.d.v_17.total_hits: 1\n')
    expect(stats).toMatch(/rate_limit\.d\.other\.total_hits: 1\d\d\d\n/)
  })
})
