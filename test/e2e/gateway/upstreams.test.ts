/** Several targets of one upstream: balancing, failures, health, retries, and TLS. */

import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { createServer } from 'node:https'
import type { Socket } from 'node:net'
import { request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { makeAuthority } from './authority.ts'
import { startTestGateway } from './test-gateway.ts'
import { listening, startRawUpstream, startUpstream } from './test-upstream.ts'

async function ask(url: string, options: { method?: string; body?: string } = {}) {
  const { statusCode, body } = await request(url, options)
  return { status: statusCode, text: await body.text() }
}

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

const named = (name: string) => startUpstream((_request, response) => void response.end(name))

describe('several targets', () => {
  test('are taken in turns', async () => {
    const targets = await Promise.all(['a', 'b', 'c'].map(named))
    const gateway = await startTestGateway({
      upstreams: { api: { targets: targets.map(({ url }) => url) } },
    })
    const names: string[] = []
    for (let count = 0; count < 6; count += 1) names.push((await ask(gateway.url)).text)
    expect(names).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
  })

  test('take over from one that refuses connections, for any method', async () => {
    const alive = await named('alive')
    const dead = `http://127.0.0.1:${await freePort()}`
    const gateway = await startTestGateway({ upstreams: { api: { targets: [dead, alive.url] } } })
    for (const options of [{}, { method: 'POST', body: 'x' }, { method: 'POST', body: 'y' }]) {
      expect(await ask(gateway.url, options)).toEqual({ status: 200, text: 'alive' })
    }
    expect(alive.seen.map(({ body }) => body)).toEqual(['', 'x', 'y'])
  })

  test('eject one that keeps failing, and take it back later', async () => {
    let isBroken = true
    const bad = await startUpstream((_request, response) => {
      response.statusCode = isBroken ? 500 : 200
      response.end('bad')
    })
    const good = await named('good')
    // Longer than the requests below take on a machine that stalls.
    const ejection = { after: 2, for: '4s' }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [bad.url, good.url], ejection } },
    })
    const seen: string[] = []
    for (let count = 0; count < 8; count += 1) seen.push((await ask(gateway.url)).text)
    expect(seen.filter((text) => text === 'bad')).toHaveLength(2)
    isBroken = false
    await until('it is back', async () => (await ask(gateway.url)).text === 'bad')
  })

  test('are all used if all were ejected', async () => {
    const bad = await startUpstream((_request, response) => {
      response.statusCode = 500
      response.end('bad')
    })
    const ejection = { after: 1, for: '1m' }
    const gateway = await startTestGateway({ upstreams: { api: { targets: [bad.url], ejection } } })
    for (let count = 0; count < 3; count += 1) {
      expect(await ask(gateway.url)).toEqual({ status: 500, text: 'bad' })
    }
  })

  test('are left out while their health check fails', async () => {
    let isWell = false
    const sick = await startUpstream((incoming, response) => {
      if (incoming.url === '/healthz') response.statusCode = isWell ? 200 : 503
      response.end('sick')
    })
    const healthCheck = {
      path: '/healthz',
      every: '20ms',
      timeout: '1s',
      unhealthyAfter: 2,
      healthyAfter: 2,
    }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [sick.url], healthCheck } },
    })
    await until('it is found out', async () => (await ask(gateway.url)).status === 503)
    isWell = true
    await until('it is healthy again', async () => (await ask(gateway.url)).status === 200)
  })

  test('have no more than one connection for their health checks', async () => {
    const sockets: Socket[] = []
    const upstream = await startRawUpstream((socket) => {
      sockets.push(socket)
      socket.write('HTTP/1.1 200 OK\r\nkeep-alive: timeout=600\r\ncontent-length: 0\r\n\r\n')
    })
    const healthCheck = { every: '10ms', timeout: '5s' }
    await startTestGateway({ upstreams: { api: { targets: [upstream.url], healthCheck } } })
    await until('it was asked often', () => sockets.length >= 10)
    const open = () => sockets.filter(({ destroyed }) => !destroyed)
    await until('the others are closed', () => open().length <= 1)
  })
})

describe('a request that got no answer', () => {
  /** Answers from the given count on; before it, breaks the connection without a byte. */
  const breaking = (from: number) => {
    let count = 0
    return startRawUpstream((socket: Socket) => {
      count += 1
      if (count < from) socket.destroy()
      else socket.write(ok)
    })
  }

  test('is sent again if it is idempotent and has no body', async () => {
    const upstream = await breaking(2)
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    expect(await ask(gateway.url)).toEqual({ status: 200, text: 'ok' })
    expect(upstream.received().match(/GET/g)).toHaveLength(2)
  })

  test('is sent again on a new connection if the idle ones are dead', async () => {
    const served = new Set<Socket>()
    const upstream = await startRawUpstream((socket) => {
      if (served.has(socket)) {
        socket.resetAndDestroy()
        return
      }
      served.add(socket)
      // Only when all of them have a connection.
      if (served.size === 4) for (const one of served) one.write(ok)
      else if (served.size > 4) socket.write(ok)
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const requests = Array.from({ length: 4 }, () => ask(gateway.url))
    expect(await Promise.all(requests)).toMatchObject(requests.map(() => ({ status: 200 })))
    expect(await ask(gateway.url)).toEqual({ status: 200, text: 'ok' })
    expect(upstream.connections()).toBe(5)
  })

  test('is not sent again more often than is allowed', async () => {
    const upstream = await breaking(100)
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], retries: 3 } },
    })
    expect((await ask(gateway.url)).status).toBe(502)
    expect(upstream.received().match(/GET/g)).toHaveLength(4)
  })

  test.each([
    ['is a POST', { method: 'POST' }],
    ['has a body', { method: 'PUT', body: 'x' }],
  ])('is not sent again where it %s', async (_name, options) => {
    const upstream = await breaking(2)
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    expect((await ask(gateway.url, options)).status).toBe(502)
    expect(upstream.connections()).toBe(1)
  })

  test('is not sent again once a byte of an answer was there', async () => {
    const upstream = await startRawUpstream((socket) => void socket.end('HTTP/1.1 2'))
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    expect((await ask(gateway.url)).status).toBe(502)
    expect(upstream.connections()).toBe(1)
  })

  test('is answered with 504 when the time is over', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const timeouts = { response: '200ms' }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], timeouts } },
    })
    expect((await ask(gateway.url)).status).toBe(504)
    expect(upstream.connections()).toBe(1)
  })

  test('is answered with 502 if no server listens', async () => {
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [`http://127.0.0.1:${await freePort()}`] } },
    })
    const { status, text } = await ask(gateway.url)
    expect(status).toBe(502)
    expect(JSON.parse(text)).toMatchObject({ detail: 'The upstream could not be reached.' })
  })

  test('is answered with 503 if too many wait already', async () => {
    const held: Socket[] = []
    const upstream = await startRawUpstream((socket) => void held.push(socket))
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], waitingMax: 2 } },
    })
    const waiting = [ask(gateway.url), ask(gateway.url)]
    await until('two are under way', () => held.length === 2)
    expect((await ask(gateway.url)).status).toBe(503)
    for (const socket of held) socket.write(ok)
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200])
  })
})

describe('an upstream with TLS', () => {
  async function startSecure(name: string) {
    const authority = makeAuthority()
    const { certFile, keyFile } = authority.issue('server', `DNS:${name}`)
    const tls = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
    const server = createServer(tls, (_request, response) => void response.end('secret'))
    const port = await listening(server)
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    return { url: `https://127.0.0.1:${port}`, ca: authority.caFile }
  }

  test('is believed by the name that its certificate must have', async () => {
    const { url, ca } = await startSecure('backend.internal')
    const tls = { ca, serverName: 'backend.internal' }
    const gateway = await startTestGateway({ upstreams: { api: { targets: [url], tls } } })
    expect(await ask(gateway.url)).toEqual({ status: 200, text: 'secret' })
  })

  test.each([
    ['is for another name', 'other.internal', true],
    ['is signed by an unknown authority', 'backend.internal', false],
  ])('is refused if its certificate %s', async (_name, name, hasCa) => {
    const { url, ca } = await startSecure(name)
    const tls = { serverName: 'backend.internal', ...(hasCa && { ca }) }
    const gateway = await startTestGateway({ upstreams: { api: { targets: [url], tls } } })
    const { status, text } = await ask(gateway.url)
    expect(status).toBe(502)
    expect(text).not.toContain('secret')
  })

  test('is not believed by the Host that a client sends', async () => {
    const { url, ca } = await startSecure('evil.example')
    const gateway = await startTestGateway({ upstreams: { api: { targets: [url], tls: { ca } } } })
    const { statusCode, body } = await request(gateway.url, { headers: { host: 'evil.example' } })
    await body.dump()
    expect(statusCode).toBe(502)
  })
})

describe('a change of the policy', () => {
  test('leads to other upstreams without dropping a request', async () => {
    const [one, other] = await Promise.all([named('one'), named('other')])
    const gateway = await startTestGateway({ upstreams: { api: { targets: [one.url] } } })
    const seen: string[] = []
    const asking = (async () => {
      for (let count = 0; count < 200; count += 1) seen.push((await ask(gateway.url)).text)
    })()
    await until('some were served', () => seen.length > 20)
    gateway.change({ upstreams: { api: { targets: [other.url] } } })
    await asking
    expect(new Set(seen)).toEqual(new Set(['one', 'other']))
    expect(seen.lastIndexOf('one')).toBeLessThan(seen.indexOf('other'))
  })

  test('is refused as a whole if a part of it is wrong', async () => {
    const one = await named('one')
    const gateway = await startTestGateway({ upstreams: { api: { targets: [one.url] } } })
    const tls = { ca: '/nowhere.pem' }
    const wrong = { upstreams: { api: { targets: ['https://127.0.0.1:1'], tls } } }
    expect(() => gateway.change(wrong)).toThrow(/nowhere/)
    expect((await ask(gateway.url)).text).toBe('one')
  })
})

describe('an answer that cannot be passed on', () => {
  test('leaves its connection to the next request', async () => {
    const body = 'a'.repeat(200_000)
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
    const upstream = await startRawUpstream((socket, text) => {
      // HTTP/2 has no such status, and only one etag.
      const fields = 'transfer-encoding: chunked\r\netag: "a"\r\netag: "b"'
      const odd = `HTTP/1.1 600 Odd\r\n${fields}\r\n\r\n${chunks}`
      socket.write(text.startsWith('GET /odd') ? odd : ok)
    })
    const authority = makeAuthority()
    const { certFile, keyFile } = authority.issue('gateway', 'IP:127.0.0.1')
    const timeouts = { wait: '30s' }
    const gateway = await startTestGateway({
      gateway: { tls: { cert: certFile, key: keyFile } },
      upstreams: { api: { targets: [upstream.url], connectionsMax: 1, timeouts } },
    })
    const session = connectHttp2(gateway.url, { ca: readFileSync(authority.caFile) })
    onTestFinished(() => session.destroy())
    expect(await statusOf(session, '/odd')).toBe(502)
    expect(await statusOf(session, '/next')).toBe(200)
  })

  function statusOf(session: ClientHttp2Session, path: string): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const stream = session.request({ ':path': path })
      let status: number | undefined
      stream.on('response', (head) => {
        status = head[':status']
      })
      stream
        .on('error', reject)
        .on('close', () => resolve(status))
        .resume()
    })
  }
})
