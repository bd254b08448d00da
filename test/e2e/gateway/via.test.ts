/** `Via` on requests, and requests that come back to the gateway that sent them. */

import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../support/servers/ports.ts'
import { makeAuthority } from './authority.ts'
import { askRaw, sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

const get = (version: string, ...fields: string[]) =>
  [`GET / HTTP/${version}`, 'Host: a', 'Connection: close', ...fields, '', ''].join('\r\n')

async function start(gateway: object = { via: 'edge' }) {
  const upstream = await startUpstream()
  const started = await startTestGateway({
    gateway,
    upstreams: { api: { targets: [upstream.url] } },
  })
  return { ...started, upstream, via: () => upstream.seen.at(-1)?.headers.via }
}

describe('Via', () => {
  test.each(['1.0', '1.1'])('has the version of the client, which is %s', async (version) => {
    const { port, via } = await start()
    await sendRaw(port, get(version))
    expect(via()).toBe(`${version} edge`)
  })

  test('has the version of the client, which is 2', async () => {
    const authority = makeAuthority()
    const { certFile, keyFile } = authority.issue('localhost', 'IP:127.0.0.1')
    const { url, via } = await start({ via: 'edge', tls: { cert: certFile, key: keyFile } })
    const connect = { ca: readFileSync(authority.caFile) }
    const dispatcher = new Agent({ allowH2: true, connect })
    onTestFinished(() => dispatcher.destroy())
    await (await request(url, { dispatcher })).body.dump()
    expect(via()).toBe('2 edge')
  })

  test('is appended to earlier values', async () => {
    const { port, via } = await start()
    await sendRaw(port, get('1.1', 'Via: 1.0 fred', 'Via: 1.1 nowhere.com (Apache/1.1)'))
    expect(via()).toBe('1.0 fred, 1.1 nowhere.com (Apache/1.1), 1.1 edge')
  })

  test('has a name of its own for each gateway, so that a chain passes', async () => {
    const inner = await start({})
    const outer = await startTestGateway({ upstreams: { inner: { targets: [inner.url] } } })
    const { status } = await askRaw(outer.port, get('1.1'))
    expect(status).toBe(200)
    const [first, second] = inner.via()?.split(', ') ?? []
    expect([first, second]).toEqual(Array(2).fill(expect.stringMatching(/^1\.1 tidegate-\w{12}$/)))
    expect(first).not.toBe(second)
  })

  test('can be removed by a route', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      routes: [{ upstream: 'api', requestHeaders: { remove: ['via'] } }],
    })
    await sendRaw(gateway.port, get('1.1', 'Via: 1.0 fred'))
    expect(upstream.seen[0]?.headers).not.toHaveProperty('via')
  })
})

describe('a request that has passed this gateway', () => {
  test('is refused with 508, so that a loop ends', async () => {
    const port = await freePort()
    const gateway = await startTestGateway({
      gateway: { listen: { host: '127.0.0.1', port } },
      upstreams: { itself: { targets: [`http://127.0.0.1:${port}`] } },
      limits: [{ name: 'all', key: 'everyone', limit: 100, per: '1h', algorithm: 'fixedWindow' }],
    })
    const { status, headers } = await askRaw(port, get('1.1'))
    expect(status).toBe(508)
    // It was charged on arrival, and not again when it came back.
    expect(headers['x-ratelimit-remaining']).toBe('99')
    expect(gateway.logged()).toMatchObject([
      {
        event: 'gateway.refused',
        status: 508,
        reason: 'The request has passed this gateway before.',
      },
    ])
  })

  test.each([
    ['1.1 edge', 508],
    ['1.0 fred, 2 edge', 508],
    ['HTTP/1.1  edge (a comment), 1.1 other', 508],
    ['1.1 edge-2', 200],
    ['1.1 other (edge)', 200],
    ['1.1 other, edge', 200],
    ['edge', 200],
  ])('is known by its name in %s: %i', async (via, expected) => {
    const { port } = await start()
    expect((await askRaw(port, get('1.1', `Via: ${via}`))).status).toBe(expected)
  })
})
