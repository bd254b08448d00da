/**
 * One path in many spellings. A limit blocks everything under `/admin`. For every spelling, that
 * limit applies, or the request is refused, or the upstream gets a path that no server reads as
 * `/admin`.
 */

import { describe, expect, test } from 'vitest'
import { askRaw } from '../e2e/gateway/raw-client.ts'
import { startTestGateway } from '../e2e/gateway/test-gateway.ts'
import { until } from '../support/servers/until.ts'
import { FrameClient, makeTls, requestFields } from './frame-client.ts'
import { startRecordingUpstream } from './recording-upstream.ts'

const blocked = { match: { path: '/admin/**' }, key: 'everyone', limit: 0, per: '1s' }

async function start(gateway: object = {}) {
  const upstream = await startRecordingUpstream()
  const upstreams = { api: { targets: [upstream.url] } }
  const limits = [{ name: 'admin', ...blocked }]
  return { upstream, gateway: await startTestGateway({ gateway, upstreams, limits }) }
}

/** Some server in use treats these as the same resource. */
const spellings = [
  ...['/admin', '/admin/', '/admin//', '/admin/.', '/admin/./', '/admin/x/..', '/admin/x/../'],
  ...['//admin', '///admin', '/./admin', '/././admin', '/../admin', '/../../admin', '/x/../admin'],
  ...['/x/y/../../admin', '/x/../../admin', '/x//../admin', '//x/..//admin', '/admin/../admin'],
  ...['/%61dmin', '/%61%64%6d%69%6e', '/%61%64%6D%69%6E', '/adm%69n', '/admin%2F', '/%2fadmin'],
  ...['/%2e/admin', '/%2E/admin', '/x/%2e%2e/admin', '/x/.%2e/admin', '/x/%2E./admin'],
  ...['/x/..%2fadmin', '/x%2f..%2fadmin', '/x/%2e%2e%2fadmin', '/x/..%5cadmin', '/x/..\\admin'],
  ...['\\admin', '/\\admin', '/%5cadmin', '/%5Cadmin', '/admin%5c', '/admin\\'],
  ...['/x/..;/admin', '/x/..;a=b/admin', '/x/..%3b/admin', '/.;/admin', '/%2e;/admin'],
  ...['/x/%2e%2e;/admin', '/admin#', '/admin#x', '/x#/../admin', '#/admin', '/admin%23'],
  ...['/admin%00', '/admin%00.html', '/%00admin', '/admin%0a', '/admin%0d%0a', '/admin%09'],
  ...['/%c0%af/admin', '/x/%c0%ae%c0%ae/admin', '/x/%e0%80%ae%e0%80%ae/admin', '/%c1%a1dmin'],
  ...['/x/%f0%80%80%ae%f0%80%80%ae/admin', '/%u0061dmin', '/admin%', '/admin%2', '/admin%zz'],
  ...['/admin?', '/admin?x=/../y', '/admin??', '/admin;x', '/admin;x=y/z', '/admin/;x'],
  ...['http://a.example/admin', 'HTTP://A.EXAMPLE/admin', 'http://a.example//admin'],
  ...['http://a.example/x/../admin', 'http://a.example/%61dmin', 'https://a.example/admin'],
  ...['http://evil.example/admin', 'http://a.example@evil.example/admin', 'http:///admin'],
  ...['http://a.example:80/admin', 'http://a.example\\@evil.example/admin', '//a.example/admin'],
  ...['ftp://a.example/admin', 'admin', '*/admin', '?/admin', '/x/.../../admin', '/x/..../admin'],
]

/** Applies every normalisation of a careless server, one after the other. */
function carelessPath(target: string): string {
  let path = target.replace(/^[a-z]+:\/\/[^/]*/i, '').replace(/[?#].*$/s, '')
  path = path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number(`0x${hex}`)))
  path = path
    .replaceAll('\\', '/')
    .replaceAll(/;[^/]*/g, '')
    .replace(/\0.*$/s, '')
  const segments: string[] = []
  for (const segment of path.split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment.trim())
  }
  return `/${segments.join('/')}`
}

const isAdmin = (target: string) => /^\/admin(\/|$)/.test(carelessPath(target))

describe('/admin spelled', () => {
  test.each(spellings)('%j is refused, or no server reads it as /admin', async (target) => {
    const { upstream, gateway } = await start()
    const head = `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
    const { status, body } = await askRaw(gateway.port, head)
    expect([200, 400, 429]).toContain(status)
    expect(upstream.requests.map((request) => request.target).filter(isAdmin)).toEqual([])
    expect(upstream.requests).toHaveLength(status === 200 ? 1 : 0)
    // The upstream answers with the path that it got, which has no second reading.
    if (status === 200) expect(body).toBe(`<${upstream.requests[0]?.target}>`)
    expect(upstream.ambiguities).toEqual([])
  })

  test('in more than 90 ways, most of which have one reading', () => {
    expect(new Set(spellings).size).toBeGreaterThan(90)
    expect(spellings.filter(isAdmin).length).toBeGreaterThan(60)
  })

  test.each([
    ...['/admin', '/admin/', '//admin', '/%61dmin', '/x/../admin', '/./admin', '/x/%2e%2e/admin'],
    ...['/admin?x', 'http://a.example/admin', '/admin/x', '/admin/%2e', '/admin/..%61/'],
  ])('%s falls under its limit', async (target) => {
    const { gateway } = await start()
    const head = `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
    expect((await askRaw(gateway.port, head)).status).toBe(429)
  })

  test.each(['/ADMIN', '/Admin', '/aDmin/x', '/%41dmin'])(
    '%s is another resource, and the upstream gets it with its letters',
    async (target) => {
      const { upstream, gateway } = await start()
      const head = `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
      expect((await askRaw(gateway.port, head)).status).toBe(200)
      expect(upstream.requests).toMatchObject([{ target: target.replace('%41', 'A') }])
    },
  )
})

describe('a limit by path', () => {
  const further = ['/admin%3B', '/admin%3bx', '/admin%3Bx=y', '/admin;x%3By', '/admin%3Bx/']

  test.each([
    ['/admin', [...spellings.filter((target) => carelessPath(target) === '/admin'), ...further]],
    ['/a:b@c', ['/a%3Ab@c', '/a%3ab%40c', '/a:b@c/', '/a:b@c;x', '/a%3Ab@c%3Bx', '/%61:b@c']],
  ])('counts %s once, however it is spelled', async (path, others) => {
    const upstream = await startRecordingUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      limits: [{ name: 'path', match: { path }, key: ['ip', 'path'], limit: 1, per: '1h' }],
    })
    const ask = async (target: string) => {
      const head = `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
      return (await askRaw(gateway.port, head)).status
    }
    expect(await ask(path)).toBe(200)
    const passed: string[] = []
    for (const target of others) if ((await ask(target)) === 200) passed.push(target)
    expect(passed).toEqual([])
    expect(upstream.requests).toHaveLength(1)
  })
})

describe('/admin spelled for a WebSocket', () => {
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13']

  test('is refused in all spellings', async () => {
    const { upstream, gateway } = await start()
    const fields = ['Host: a.example', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', ...upgrade]
    const passed: string[] = []
    for (const target of spellings.filter(isAdmin)) {
      const head = `GET ${target} HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`
      const { status } = await askRaw(gateway.port, head)
      if (status !== 400 && status !== 429) passed.push(`${status} ${target}`)
    }
    expect(passed).toEqual([])
    expect(upstream.requests).toEqual([])
  })
})

describe('/admin spelled in :path of HTTP/2', () => {
  const beyondAscii = ['/admin é', '/ad\u00admin', '/admin\r\n', '/admin HTTP/1.1\r\nx: y', '']

  test('is refused in all spellings, or no server reads it as /admin', async () => {
    const { tls } = makeTls()
    const { upstream, gateway } = await start({ tls })
    const ask = async (path: string) => {
      const client = await FrameClient.connect(gateway.port)
      const id = client.request(requestFields(path))
      await until(`${JSON.stringify(path)} is answered`, () => client.isOver(id))
      client.socket.destroy()
      return `${client.answer(id).status} ${path}`
    }
    const paths = [...spellings, ...beyondAscii, '*', '/admin\0', ' /admin', '/admin\t']
    const seen = await Promise.all(paths.map(ask))
    expect(upstream.requests.map((request) => request.target).filter(isAdmin)).toEqual([])
    expect(upstream.ambiguities).toEqual([])
    // 0 is a reset or the end of the connection.
    expect(seen.filter((text) => !/^(0|200|400|429) /.test(text))).toEqual([])
    expect(seen.filter((text) => text.startsWith('200'))).toHaveLength(upstream.requests.length)
    expect(seen).toContain('429 /x/%2e%2e/admin')
  })
})

describe('a rewritten path', () => {
  test.each([
    ['/v1/admin', '/api/admin'],
    ['/v1//admin', '/api/admin'],
    ['/v1/../v1/admin', '/api/admin'],
    ['/v1', '/api'],
    ['/v1/', '/api/'],
    ['/v1/%2e%2e/admin', undefined],
    ['/v1/..%2fadmin', undefined],
    ['/v1x/admin', undefined],
  ])('of %s is %s', async (target, expected) => {
    const upstream = await startRecordingUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url] } },
      routes: [
        {
          match: { path: '/v1/**' },
          upstream: 'api',
          rewrite: { stripPrefix: '/v1', addPrefix: '/api' },
        },
      ],
    })
    const head = `GET ${target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n`
    await askRaw(gateway.port, head)
    expect(upstream.requests.map((request) => request.target)).toEqual(
      expected === undefined ? [] : [expected],
    )
  })
})
