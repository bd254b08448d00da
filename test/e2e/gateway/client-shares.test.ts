/** Clients that hold connections and slots, and others that need some too. */

import { connect, type Socket } from 'node:net'
import { request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LOOPBACK } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw, parseResponse } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

const head = (line: string, ...fields: string[]) =>
  `${[`${line} HTTP/1.1`, 'Host: a.example', ...fields].join('\r\n')}\r\n\r\n`

const get = (path: string) => head(`GET ${path}`, 'Connection: close')

/** A connection from another address of this machine. */
function openFrom(localAddress: string, port: number): Socket {
  const socket = connect({ port, host: LOOPBACK, localAddress })
  onTestFinished(() => void socket.destroy())
  return socket.on('error', () => undefined)
}

/** Answers everything but `/hold`, whose responses it keeps until they are released. */
async function startHolding() {
  const held: Socket[] = []
  const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
  const upstream = await startRawUpstream((socket, text) => {
    if (text.startsWith('GET /hold')) held.push(socket)
    else socket.write(ok)
  })
  return { upstream, held, letGo: () => void held.shift()?.write(ok) }
}

describe('a body that arrives slowly', () => {
  test.each([
    ['of a length', 'Content-Length: 9', 'half', 'after'],
    ['in chunks', 'Transfer-Encoding: chunked', '4\r\nhalf\r\n', '5\r\nafter\r\n0\r\n\r\n'],
  ])('%s holds no connection to the upstream until all is there', async (_, field, one, two) => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], connectionsMax: 1 } },
    })
    const slow = openRaw(gateway.port)
    slow.socket.write(head('POST /slow', field) + one)
    for (let count = 0; count < 3; count += 1) {
      expect((await askRaw(gateway.port, get('/other'))).status).toBe(200)
    }
    expect(upstream.seen.map(({ url }) => url)).not.toContain('/slow')
    slow.socket.write(two)
    await until('it is answered', () => slow.received().includes('from the upstream'))
    expect(upstream.seen.at(-1)).toMatchObject({
      url: '/slow',
      headers: { 'content-length': '9' },
    })
    slow.socket.destroy()
  })

  test('and is large is forwarded as soon as its beginning is there', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const { socket } = openRaw(gateway.port)
    socket.write(head('POST /large', 'Content-Length: 200000'))
    socket.write('x'.repeat(60_000))
    expect((await request(`${gateway.url}/health`)).statusCode).toBe(200)
    expect(upstream.received()).toBe('')
    socket.write('x'.repeat(40_000))
    await until('it continues', () => upstream.received().length > 100_000)
    socket.write('x'.repeat(100_000))
    await until('all of it is there', () => upstream.received().length > 200_000)
    expect(upstream.received()).toContain('content-length: 200000')
    socket.destroy()
  })

  test('and in chunks stays chunked if it is large', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const chunk = `4000\r\n${'x'.repeat(16_384)}\r\n`
    const fields = ['Transfer-Encoding: chunked', 'Connection: close']
    const text = `${head('POST /', ...fields)}${chunk.repeat(10)}0\r\n\r\n`
    expect((await askRaw(gateway.port, text)).status).toBe(200)
    expect(upstream.seen[0]?.body).toHaveLength(163_840)
    expect(upstream.seen[0]?.headers).toMatchObject({ 'transfer-encoding': 'chunked' })
  })

  test('is not requested if there is no slot for it', async () => {
    const { upstream, held } = await startHolding()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], waitingMax: 1 } },
    })
    openFrom(LOOPBACK, gateway.port).write(head('GET /hold'))
    await until('the place is taken', () => held.length === 1)
    const waiting = head('POST /', 'Content-Length: 5', 'Expect: 100-continue')
    const { status, headers, text } = await askRaw(gateway.port, waiting)
    expect(status).toBe(503)
    expect(headers).toMatchObject({ 'retry-after': '1' })
    expect(text).not.toContain('100 Continue')
  })
})

describe('a request that waits for a connection', () => {
  async function startWaiting(bytes: string) {
    const { upstream, held, letGo } = await startHolding()
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], connectionsMax: 1, waitingMax: 2 } },
    })
    const first = openRaw(gateway.port)
    first.socket.write(head('GET /hold'))
    await until('the connection is in use', () => held.length === 1)
    const second = openRaw(gateway.port)
    second.socket.write(bytes)
    const isFull = async () => (await askRaw(gateway.port, get('/third'))).status === 503
    return { upstream, gateway, letGo, first, second, isFull }
  }

  test.each([
    ['without a body', head('GET /waiting')],
    ['with all of its body', `${head('POST /waiting', 'Content-Length: 5')}hello`],
    [
      'with the beginning of its body',
      head('POST /waiting', 'Content-Length: 200000') + 'x'.repeat(100_000),
    ],
  ])('%s leaves its place with its client, and is never sent', async (_name, bytes) => {
    const { upstream, gateway, letGo, first, second, isFull } = await startWaiting(bytes)
    await until('both places are taken', isFull)
    second.socket.destroy()
    const third = openRaw(gateway.port)
    onTestFinished(() => void third.socket.destroy())
    await until('its place is free', async () => {
      third.socket.write(head('GET /next'))
      return !(await isFull()) || !third.received().includes('503')
    })
    letGo()
    await until('the first is answered', () => first.received().includes('200 OK'))
    await until('the next is answered', () => third.received().includes('200 OK'))
    expect(upstream.received()).toContain('GET /next')
    expect(upstream.received()).not.toContain('/waiting')
    first.socket.destroy()
  })

  test('for too long gets Retry-After', async () => {
    const { upstream, held, letGo } = await startHolding()
    const timeouts = { wait: '300ms' }
    const gateway = await startTestGateway({
      upstreams: { api: { targets: [upstream.url], connectionsMax: 1, timeouts } },
    })
    const answers = [get('/hold'), get('/hold')].map((text) => askRaw(gateway.port, text))
    await until('one is under way', () => held.length === 1)
    const { status, headers } = await Promise.race(answers)
    expect([status, headers['retry-after']]).toEqual([503, '1'])
    letGo()
    const statuses = (await Promise.all(answers)).map((answer) => answer.status)
    expect(statuses.sort()).toEqual([200, 503])
  })
})

describe('an address that holds all it can get', () => {
  const policyFor = (url: string, others: object = {}) => ({
    upstreams: { api: { targets: [url], connectionsMax: 8, waitingMax: 16, ...others } },
  })

  test('of answers that it does not read leaves something for others', async () => {
    const upstream = await startUpstream((incoming, response) => {
      if (incoming.url === '/large') response.end(Buffer.alloc(16 * 1_024 ** 2))
      else response.end('small')
    })
    const room = { connectionsMax: 32, waitingMax: 128 }
    const gateway = await startTestGateway(policyFor(upstream.url, room))
    for (const address of ['127.0.0.2', '127.0.0.3', '127.0.0.4']) {
      const open = Array.from({ length: 20 }, () => openFrom(address, gateway.port).pause())
      for (const socket of open) socket.write(head('GET /large'))
    }
    await until('much is held', () => {
      return upstream.seen.filter(({ url }) => url === '/large').length >= 28
    })
    for (let count = 0; count < 10; count += 1) {
      expect(await askRaw(gateway.port, get('/small'))).toMatchObject({
        status: 200,
        body: 'small',
      })
    }
  })

  test('gets 503 with Retry-After for more, and others are still served', async () => {
    const { upstream, held } = await startHolding()
    const gateway = await startTestGateway(policyFor(upstream.url))
    let text = ''
    for (let count = 0; count < 12; count += 1) {
      const socket = openFrom('127.0.0.2', gateway.port).setEncoding('latin1')
      socket.on('data', (part) => {
        text += part
      })
      socket.write(head('GET /hold'))
    }
    await until('the rest is refused', () => text.match(/HTTP\/1.1 503/g)?.length === 3)
    expect(parseResponse(text).headers).toMatchObject({ 'retry-after': '1' })
    expect(held).toHaveLength(5)
    expect((await askRaw(gateway.port, get('/other'))).status).toBe(200)
  })

  test('is the address that trusted proxies report', async () => {
    const { upstream, held } = await startHolding()
    const gateway = await startTestGateway({
      gateway: { trustProxy: ['127.0.0.0/8'] },
      ...policyFor(upstream.url),
    })
    for (const client of ['2001:db8::1', '2001:db8::2', '2001:db8::3', '2001:db8::4']) {
      for (let count = 0; count < 4; count += 1) {
        const socket = openFrom(LOOPBACK, gateway.port)
        socket.write(head('GET /hold', `X-Forwarded-For: ${client}`))
      }
    }
    // All addresses are of one network, which counts as one client.
    await until('its share is in use', () => held.length === 5)
    const other = head('GET /other', 'X-Forwarded-For: 2001:db8:0:1::1', 'Connection: close')
    expect((await askRaw(gateway.port, other)).status).toBe(200)
    expect(held).toHaveLength(5)
  })

  test('has everything if the policy allows it', async () => {
    const { upstream, held } = await startHolding()
    const gateway = await startTestGateway(policyFor(upstream.url, { clientShareMax: 1 }))
    for (let count = 0; count < 16; count += 1) {
      openFrom('127.0.0.2', gateway.port).write(head('GET /hold'))
    }
    await until('all is in use', () => held.length === 8)
    await until('all places are', async () => {
      return (await askRaw(gateway.port, get('/other'))).status === 503
    })
  })
})

test('health checks are answered while all connections are in use', async () => {
  let checks = 0
  const upstream = await startUpstream((incoming, response) => {
    if (incoming.url !== '/healthz') return
    checks += 1
    response.end('well')
  })
  const healthCheck = { path: '/healthz', every: '20ms', timeout: '1s', unhealthyAfter: 1 }
  const gateway = await startTestGateway({
    upstreams: { api: { targets: [upstream.url], connectionsMax: 1, waitingMax: 2, healthCheck } },
  })
  openFrom(LOOPBACK, gateway.port).write(head('GET /hold'))
  await until('it is under way', () => upstream.seen.some(({ url }) => url === '/hold'))
  const before = checks
  await until('checks go on', () => checks > before + 5)
})
