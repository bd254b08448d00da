/** Clients with another version of HTTP, or that switch to another protocol. */

import { describe, expect, test } from 'vitest'
import { startProbedGateway } from '../../security/probed-gateway.ts'
import { until } from '../../support/servers/until.ts'
import { AnswerClient, head } from './answer-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'
import { differs } from './transport-differences.ts'

async function startSlow() {
  const upstream = await startUpstream((request, response) => {
    setTimeout(() => response.end(`<${request.url}>`), 20)
  })
  return { upstream, upstreams: { api: { targets: [upstream.url] } } }
}

describe('a version', () => {
  test.each([
    ['none', ''],
    ['0.9', ' HTTP/0.9'],
    ['1.2', ' HTTP/1.2'],
    ['2.0', ' HTTP/2.0'],
    ['3.0', ' HTTP/3.0'],
  ])('of %s is refused, because the end of its message is unknown', async (_name, text) => {
    const { upstream, upstreams } = await startSlow()
    const gateway = await startTestGateway({ upstreams })
    const client = new AnswerClient(gateway.port)
    client.send(`GET /a${text}\r\nHost: a.example\r\n\r\n`, head('GET /b'))
    await client.closed()
    expect(client.answers).toHaveLength(1)
    expect([400, 505]).toContain(client.answers[0]?.status)
    expect(upstream.seen).toEqual([])
  })
})

describe('a request to switch protocols', () => {
  const websocket = [
    ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]
  const before: readonly (readonly [string, string])[] = [
    ['a GET', head('GET /a')],
    ['a POST', `${head('POST /a', 'Content-Length: 1')}x`],
    ['an answer of the gateway', head('GET /a\\')],
    ['another', head('GET /a', ...websocket)],
  ]

  test.each(before)('right behind %s does not end the process', async (_name, first) => {
    const { upstreams } = await startSlow()
    const gateway = await startProbedGateway({ upstreams })
    const client = new AnswerClient(gateway.port)
    client.send(first, head('GET /b', ...websocket))
    await until('it is over, or all is answered', () => {
      return client.socket.closed || client.answers.length === 2
    })
    expect(gateway.child.exitCode).toBeNull()
    expect(gateway.output()).not.toContain('gateway.error')
    const next = await new AnswerClient(gateway.port).ask(head('GET /next'))
    expect(next.body).toBe('</next>')
    expect(client.answers[0]?.body).toMatch(/<\/a>|not allowed/)
  })

  test('to which the gateway does not agree is a request, with others behind it', async () => {
    const { upstreams } = await startSlow()
    const gateway = await startTestGateway({ upstreams })
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a', 'Connection: Upgrade', 'Upgrade: h2c'), head('GET /b'))
    expect((await client.answer(0)).body).toBe('</a>')
    if (differs('upgrade')) {
      await client.closed()
      expect(client.answers).toMatchObject([{ headers: { connection: 'close' } }])
    } else expect((await client.answer(1)).body).toBe('</b>')
  })
})
