/** Draining: clients do not notice a stop. */

import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { askRaw, openRaw, parseResponse } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

async function isReady(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(`${url}/ready`)
    await body.dump()
    return statusCode === 200
  } catch {
    return false
  }
}

async function isRefused(port: number): Promise<boolean> {
  const { socket } = openRaw(port)
  await until('it is decided', () => socket.closed || socket.readyState === 'open')
  socket.destroy()
  return socket.errored !== null
}

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a.example\r\n\r\n`

describe('a gateway that stops', () => {
  test('says first that it is not ready, and serves on', async () => {
    const upstream = await startUpstream()
    const gateway = await startTestGateway({
      // Longer than the requests below take on a machine that stalls.
      gateway: { timeouts: { unready: '4s' } },
      upstreams: { api: { targets: [upstream.url] } },
    })
    expect((await request(`${gateway.url}/ready`)).statusCode).toBe(200)
    const closed = gateway.close()
    const ready = await askRaw(gateway.port, get('/ready'))
    expect(ready).toMatchObject({ status: 503, headers: { connection: 'close' } })
    expect((await askRaw(gateway.port, get('/health'))).status).toBe(200)
    expect((await askRaw(gateway.port, get('/'))).status).toBe(200)
    await closed
    await expect(request(gateway.url)).rejects.toThrow(/ECONNREFUSED/)
  })

  test('drops no request when another takes over, as in a rolling restart', async () => {
    const upstream = await startUpstream((_request, response) => {
      setTimeout(() => response.end('ok'), 5)
    })
    const policy = {
      // Far longer than the balancer needs to notice, also on a busy machine.
      gateway: { timeouts: { unready: '3s' } },
      upstreams: { api: { targets: [upstream.url] } },
    }
    const nodes = [await startTestGateway(policy)]
    const agent = new Agent({ connections: 16 })
    onTestFinished(() => agent.destroy())
    let isOver = false
    let served = 0
    let ready = nodes[0]?.url ?? ''
    const failures: unknown[] = []
    const balancer = async () => {
      while (!isOver) {
        for (const { url } of nodes) if (await isReady(url)) ready = url
        await sleep(20)
      }
    }
    const client = async () => {
      while (!isOver) {
        const asked = request(ready, { dispatcher: agent }).then(({ body }) => body.text())
        const text = await asked.catch((error: unknown) => error)
        if (text === 'ok') served += 1
        else failures.push(text)
      }
    }
    const running = [balancer(), ...Array.from({ length: 16 }, client)]
    for (let restarts = 0; restarts < 2; restarts += 1) {
      const before = served
      await until('requests are served', () => served > before + 100)
      nodes.unshift(await startTestGateway(policy))
      await nodes.pop()?.close()
    }
    isOver = true
    await Promise.all(running)
    expect(failures).toEqual([])
  })

  test('lets a response end that has begun', async () => {
    let end = () => {}
    const upstream = await startUpstream((_request, response) => {
      response.write('first ')
      end = () => void response.end('last')
    })
    const gateway = await startTestGateway({
      gateway: { timeouts: { drain: '1m' } },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const { socket, received } = openRaw(gateway.port)
    socket.write(get('/'))
    await until('it has begun', () => received().includes('first '))
    const closed = gateway.close()
    await until('no other client is accepted', () => isRefused(gateway.port))
    end()
    await closed
    await until('it has ended', () => parseResponse(received()).body.includes('last'))
  })

  test.each(['own', 'node'])(
    'answers the first request of a connection that it has accepted: %s',
    async (transport) => {
      const upstream = await startUpstream((_request, response) => void response.end('ok'))
      const gateway = await startTestGateway({
        gateway: { transport, timeouts: { drain: '1m' } },
        upstreams: { api: { targets: [upstream.url] } },
      })
      const { socket, received } = openRaw(gateway.port)
      expect(await isReady(gateway.url)).toBe(true)
      const closed = gateway.close()
      await until('no other client is accepted', () => isRefused(gateway.port))
      socket.write(get('/'))
      await until('it is answered', () => parseResponse(received()).body.includes('ok'))
      await closed
    },
  )

  test('waits no longer than configured', async () => {
    const upstream = await startUpstream((_request, response) => void response.write('for ever'))
    const gateway = await startTestGateway({
      gateway: { timeouts: { drain: '200ms' } },
      upstreams: { api: { targets: [upstream.url] } },
    })
    const { socket, received } = openRaw(gateway.port)
    socket.write(get('/'))
    await until('it has begun', () => received().includes('for ever'))
    await gateway.close()
    await until('it is cut off', () => socket.closed)
  })
})
