/** Connections that switch to another protocol. */

import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

async function start(others: object = {}) {
  const upstream = await startUpstream()
  const sockets = new WebSocketServer({ server: upstream.server })
  const opened: { url: string; headers: NodeJS.Dict<string | string[]> }[] = []
  sockets.on('connection', (socket, { url = '', headers }) => {
    opened.push({ url, headers })
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  onTestFinished(() => {
    for (const socket of sockets.clients) socket.terminate()
    sockets.close()
  })
  const gateway = await startTestGateway({
    upstreams: { api: { targets: [upstream.url] } },
    ...others,
  })
  const open = (path = '/') => {
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}${path}`, 'chat')
    socket.on('error', () => undefined)
    onTestFinished(() => socket.terminate())
    return socket
  }
  return { upstream, sockets, opened, gateway, open }
}

const upgrade = (...fields: string[]) =>
  [
    ...['GET / HTTP/1.1', 'Host: a.example', 'Connection: Upgrade', 'Upgrade: websocket'],
    ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', ...fields],
    ...['', ''],
  ].join('\r\n')

describe('a WebSocket', () => {
  test('carries messages of any size both ways', async () => {
    const { opened, open } = await start()
    const socket = open('/x/../chat?room=1')
    await once(socket, 'open')
    expect(socket.protocol).toBe('chat')
    for (const text of ['hello', 'x'.repeat(300_000)]) {
      socket.send(text)
      const [data] = await once(socket, 'message')
      expect(String(data) === text).toBe(true)
    }
    expect(opened[0]).toMatchObject({
      url: '/chat?room=1',
      headers: { 'x-forwarded-for': '127.0.0.1' },
    })
  })

  test('ends on both sides when one side ends it', async () => {
    const { sockets, open } = await start()
    const first = open()
    await once(first, 'open')
    first.terminate()
    await until('the upstream request is closed', () => sockets.clients.size === 0)
    const second = open()
    await once(second, 'open')
    for (const socket of sockets.clients) socket.terminate()
    await once(second, 'close')
  })

  test('keeps its concurrency slot for as long as it is open', async () => {
    const { open } = await start({
      limits: [{ name: 'open', algorithm: 'concurrency', key: 'ip', limit: 2, ttl: '2s' }],
    })
    const [first, second] = [open(), open()]
    await Promise.all([once(first, 'open'), once(second, 'open')])
    const statusOf = async () => {
      const [, response] = await once(open(), 'unexpected-response')
      return response.statusCode as number
    }
    const endMs = performance.now() + 5_000
    await until('the slots were held for two of their times', async () => {
      expect(await statusOf()).toBe(429)
      return performance.now() > endMs
    })
    first.terminate()
    await until('another has the slot', async () => {
      const third = open()
      return Promise.race([
        once(third, 'open').then(() => true),
        once(third, 'unexpected-response').then(() => false),
      ])
    })
  })

  test('is ended on both sides when its client takes nothing that is sent to it', async () => {
    const { sockets, open } = await start({ gateway: { timeouts: { send: '500ms' } } })
    const socket = open()
    await once(socket, 'open')
    socket.pause()
    const [other] = sockets.clients
    other?.send(Buffer.alloc(64 * 1_024 ** 2))
    await until('the upstream request is closed', () => other?.readyState === WebSocket.CLOSED)
  })

  test('is limited as any other request', async () => {
    const limits = [{ name: 'one', key: 'ip', limit: 1, per: '1h', algorithm: 'fixedWindow' }]
    const { upstream, opened, gateway, open } = await start({ limits })
    await once(open(), 'open')
    const refused = await askRaw(gateway.port, upgrade())
    expect(refused.status).toBe(429)
    expect(JSON.parse(refused.body)).toMatchObject({ status: 429 })
    expect(opened).toHaveLength(1)
    expect(upstream.seen).toHaveLength(0)
  })

  test('holds its slot of a concurrency limit as long as it is open', async () => {
    const limits = [{ name: 'slots', key: 'ip', limit: 1, algorithm: 'concurrency', ttl: '1h' }]
    const { gateway, open } = await start({ limits })
    const socket = open()
    await once(socket, 'open')
    expect((await askRaw(gateway.port, upgrade())).status).toBe(429)
    socket.terminate()
    await until('the slot is free', async () => {
      const { socket: next, received } = openRaw(gateway.port)
      next.write(upgrade())
      await until('there is an answer', () => received().includes('\r\n\r\n'))
      next.destroy()
      return received().startsWith('HTTP/1.1 101')
    })
  })

  test('that the upstream does not want gets its answer', async () => {
    const upstream = await startUpstream((_request, response) => {
      response.statusCode = 404
      response.end('no such room')
    })
    upstream.server.on('upgrade', (_request, socket) => {
      socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno')
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const response = await askRaw(gateway.port, upgrade())
    expect(response).toMatchObject({ status: 403, body: 'no' })
  })

  test.each([
    ['with a body', upgrade('Content-Length: 5')],
    ['by another method', upgrade().replace('GET', 'POST')],
  ])('is refused %s', async (_name, bytes) => {
    const { opened, gateway } = await start()
    expect((await askRaw(gateway.port, bytes)).status).toBe(400)
    expect(opened).toHaveLength(0)
  })

  test('is the only protocol to switch to', async () => {
    const { upstream, gateway } = await start()
    const fields = ['Connection: close, Upgrade, HTTP2-Settings', 'HTTP2-Settings: AAMAAABk']
    const head = ['GET / HTTP/1.1', 'Host: a.example', 'Upgrade: h2c', ...fields, '', '']
    const response = await askRaw(gateway.port, head.join('\r\n'))
    expect(response).toMatchObject({ status: 200, body: 'from the upstream' })
    expect(upstream.seen[0]?.headers).not.toHaveProperty('upgrade')
  })
})
