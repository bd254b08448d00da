/** The id of a request: in its response, at the upstream, and in every line of the log. */

import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { sendRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

const limits = [{ name: 'two', key: 'everyone', limit: 2, per: '1h' }]

async function start(policy: object = {}) {
  const upstream = await startUpstream((_request, response) => {
    response.setHeader('x-request-id', 'of-the-upstream')
    response.end('hello')
  })
  const gateway = await startTestGateway({
    upstreams: { api: { targets: [upstream.url] } },
    limits,
    log: { sampleAllowed: 1 },
    ...policy,
  })
  const ask = async (headers: Record<string, string> = {}, path = '/') => {
    const response = await request(`${gateway.url}${path}`, { headers })
    const text = await response.body.text()
    return { status: response.statusCode, id: response.headers['x-request-id'], text }
  }
  return { upstream, gateway, ask }
}

describe('the id of a request', () => {
  test('is made, forwarded, returned and logged', async () => {
    const { upstream, gateway, ask } = await start()
    const { id } = await ask()
    expect(id).toMatch(uuid)
    expect(upstream.seen[0]?.headers['x-request-id']).toBe(id)
    expect(gateway.logged()).toMatchObject([{ event: 'ratelimit.decision', request_id: id }])
  })

  test('is in the problem details of every refusal, each with its own', async () => {
    const { gateway, ask } = await start()
    await ask()
    await ask()
    const ids = new Set<unknown>()
    for (let count = 0; count < 5; count += 1) {
      const { status, id, text } = await ask()
      expect([status, JSON.parse(text).request_id]).toEqual([429, id])
      ids.add(id)
    }
    expect(ids.size).toBe(5)
    expect(gateway.logged().map(({ request_id }) => request_id)).toEqual(
      expect.arrayContaining([...ids]),
    )
    const invalid = await sendRaw(
      gateway.port,
      'GET /%2f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n',
    )
    const [, returned = ''] = /x-request-id: (\S+)/.exec(invalid) ?? []
    expect(returned).toMatch(uuid)
    expect(invalid).toContain(`"request_id":"${returned}"}`)
  })

  test.each([
    ['breaks off', 502, (socket: Socket) => void socket.destroy()],
    ['stays away', 504, () => undefined],
  ])('is in the refusal if the body %s after the head', async (_name, status, leave) => {
    const head = 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-request-id: of-the-upstream\r\n\r\n'
    const upstream = await startRawUpstream((socket) => socket.write(head, () => leave(socket)))
    // Longer than a machine stalls before the response breaks off.
    const timeouts = { idle: '2s' }
    // The response to a request with a key is read whole before it is sent.
    const { gateway } = await start({
      upstreams: { api: { targets: [upstream.url], timeouts } },
      idempotency: {},
    })
    const headers = { 'idempotency-key': randomUUID(), 'x-api-key': 'ada' }
    const response = await request(gateway.url, { method: 'POST', headers, body: '{}' })
    const id = response.headers['x-request-id']
    expect([response.statusCode, id]).toEqual([status, expect.stringMatching(uuid)])
    expect(await response.body.json()).toMatchObject({ status, request_id: id })
  })

  test('is in the refusal if the upstream has not answered in time', async () => {
    const upstream = await startRawUpstream(() => undefined)
    const timeouts = { response: '100ms' }
    const { ask } = await start({ upstreams: { api: { targets: [upstream.url], timeouts } } })
    const { status, id, text } = await ask()
    expect([status, id]).toEqual([504, expect.stringMatching(uuid)])
    expect(JSON.parse(text).request_id).toBe(id)
  })

  test('is in the refusal if the body that comes with the head is not valid', async () => {
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a size\r\n'
    const upstream = await startRawUpstream((socket) => socket.write(head))
    const { ask } = await start({ upstreams: { api: { targets: [upstream.url] } } })
    const { status, id, text } = await ask()
    expect([status, id]).toEqual([502, expect.stringMatching(uuid)])
    expect(JSON.parse(text).request_id).toBe(id)
  })

  test('of a client is replaced unless the client is trusted', async () => {
    const { upstream, ask } = await start()
    expect((await ask({ 'x-request-id': 'mine-1' })).id).toMatch(uuid)
    expect(upstream.seen[0]?.headers['x-request-id']).toMatch(uuid)
    const trusting = await start({ gateway: { trustProxy: ['127.0.0.1'] } })
    expect((await trusting.ask({ 'x-request-id': 'mine-1' })).id).toBe('mine-1')
    expect(trusting.upstream.seen[0]?.headers['x-request-id']).toBe('mine-1')
    const never = await start({
      gateway: { trustProxy: ['127.0.0.1'], requestId: { accept: 'never' } },
    })
    expect((await never.ask({ 'x-request-id': 'mine-1' })).id).toMatch(uuid)
  })

  test('of a client is in shared refusals too, and stays out of those of others', async () => {
    const { ask } = await start({ gateway: { requestId: { accept: 'always' } } })
    await ask()
    await ask()
    const before = await ask()
    const hostile = 'application/problem-json-violated-po'
    for (const id of ['short', hostile, 'x'.repeat(128)]) {
      const taken = await ask({ 'x-request-id': id })
      expect([taken.status, taken.id, JSON.parse(taken.text).request_id]).toEqual([429, id, id])
    }
    const after = await ask()
    expect(JSON.parse(after.text)).toEqual({ ...JSON.parse(before.text), request_id: after.id })
    expect(after.id).not.toBe(before.id)
  })

  test.each([
    ['a space', 'a b'],
    ['a quote', 'a"b'],
    ['a comma', 'a,b'],
    ['129 characters', 'x'.repeat(129)],
    ['a byte that is not ASCII', 'caf\xe9'],
    ['nothing', ''],
  ])('with %s is replaced', async (_name, id) => {
    const { gateway } = await start({ gateway: { requestId: { accept: 'always' } } })
    const head = `GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\nConnection: close\r\n\r\n`
    const response = await sendRaw(gateway.port, head)
    expect(/x-request-id: (\S+)/.exec(response)?.[1]).toMatch(uuid)
  })

  test('that is sent twice, or under an alias, is replaced by one', async () => {
    const { upstream, gateway } = await start({ gateway: { requestId: { accept: 'always' } } })
    const fields = 'X-Request-Id: one\r\nX-Request-Id: two\r\nX_Request_Id: three'
    await sendRaw(
      gateway.port,
      `GET / HTTP/1.1\r\nHost: a\r\n${fields}\r\nConnection: close\r\n\r\n`,
    )
    const headers = upstream.seen[0]?.headers
    expect(headers?.['x-request-id']).toMatch(uuid)
    expect(headers).not.toHaveProperty('x_request_id')
  })

  test('has the header field of the policy', async () => {
    const { upstream, gateway } = await start({
      gateway: { requestId: { header: 'X-Correlation' } },
    })
    const { headers } = await request(gateway.url)
    expect(headers['x-correlation']).toMatch(uuid)
    expect(upstream.seen[0]?.headers['x-correlation']).toBe(headers['x-correlation'])
  })
})
