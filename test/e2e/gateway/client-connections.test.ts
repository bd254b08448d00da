/** A connection of an HTTP/1 client: its responses, their order, and its end. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { AnswerClient, head, oldHead } from './answer-client.ts'
import { openRaw } from './raw-client.ts'
import { startTestGateway } from './test-gateway.ts'
import { startRawUpstream, startUpstream } from './test-upstream.ts'

type Answering = (request: IncomingMessage, response: ServerResponse, body: string) => void

const echo: Answering = ({ method, url }, response, body) => {
  response.end(`<${method} ${url} ${body}>`)
}

async function start(answer: Answering = echo, others: object = {}) {
  const upstream = await startUpstream(answer)
  const policy = { upstreams: { api: { targets: [upstream.url] } }, ...others }
  return { upstream, gateway: await startTestGateway(policy) }
}

/** An upstream that answers when the test says so. */
async function startHolding(others: object = {}) {
  const held: { request: IncomingMessage; response: ServerResponse; isClosed: boolean }[] = []
  const hold = (request: IncomingMessage, response: ServerResponse) => {
    const one = { request, response, isClosed: false }
    held.push(one)
    response.on('close', () => {
      one.isClosed = true
    })
  }
  return { ...(await start(hold, others)), held }
}

/** Asks on another connection: after its response, all earlier work of the gateway is done. */
async function askMeanwhile(port: number): Promise<void> {
  expect((await new AnswerClient(port).ask(head('GET /health'))).status).toBe(200)
}

describe('a connection that is kept', () => {
  test('carries one request after the other', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    for (const path of ['/a', '/b', '/c']) {
      const { body, headers } = await client.ask(head(`GET ${path}`))
      expect(body).toBe(`<GET ${path} >`)
      expect(headers).toMatchObject({ connection: 'keep-alive', 'keep-alive': 'timeout=75' })
    }
    expect(client.socket.closed).toBe(false)
  })

  test('has responses in the order of requests, even if a later one is ready first', async () => {
    const { gateway, held } = await startHolding()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /slow'), head('GET /health'), head('GET /\\'))
    const slow = await until('the first is asked for', () => held[0])
    await askMeanwhile(gateway.port)
    expect(client.received).toBe('')
    slow.response.end('slow')
    await client.answer(2)
    expect(client.statuses).toEqual([200, 200, 400])
    expect(client.answers[0]?.body).toBe('slow')
  })

  test('carries 100 requests of one write, answered in order', async () => {
    const { gateway } = await start((request, response) => {
      setTimeout(() => response.end(request.url), Number(request.url?.slice(1)) % 3)
    })
    const client = new AnswerClient(gateway.port)
    const paths = Array.from({ length: 100 }, (_, at) => `/${at}`)
    client.send(...paths.map((path) => head(`GET ${path}`)))
    await client.answer(99)
    expect(client.answers.map(({ body }) => body)).toEqual(paths)
    expect(client.rest).toBe('')
  })

  const five = 'Content-Length: 5'
  const coded = 'Transfer-Encoding: chunked'

  test('carries a request behind the body of another', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(
      `${head('POST /a', five)}hello`,
      `${head('POST /b', coded)}5\r\nhello\r\n0\r\n\r\n`,
      `${head('POST /c', coded)}1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n`,
      `${head('PUT /d', 'Content-Length: 0')}`,
      head('GET /e'),
    )
    await client.answer(4)
    expect(client.answers.map(({ body }) => body)).toEqual([
      '<POST /a hello>',
      '<POST /b hello>',
      '<POST /c x>',
      '<PUT /d >',
      '<GET /e >',
    ])
  })

  // https://www.rfc-editor.org/rfc/rfc9112#section-9.3.2
  test('asks for nothing behind a request that changes something', async () => {
    const { gateway, held } = await startHolding()
    const client = new AnswerClient(gateway.port)
    client.send(`${head('POST /a', five)}hello`, head('GET /b'))
    const first = await until('the first is asked for', () => held[0])
    await askMeanwhile(gateway.port)
    expect(held.map(({ request }) => request.url)).toEqual(['/a'])
    first.response.end('changed')
    const second = await until('the second is asked for', () => held[1])
    second.response.end('read')
    expect((await client.answer(1)).body).toBe('read')
  })

  test('carries requests in single bytes', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const requests = [
      head('GET /a'),
      `${head('POST /b', five)}hello`,
      `${head('POST /c', coded)}2;x=y\r\nhe\r\n003\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n`,
    ]
    for (const byte of requests.join('')) {
      await new Promise((resolve) => client.socket.write(byte, 'latin1', resolve))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await client.answer(2)
    const bodies = client.answers.map(({ body }) => body)
    expect(bodies).toEqual(['<GET /a >', '<POST /b hello>', '<POST /c hello>'])
  })

  test('carries a request behind an empty line, however that arrives', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    await client.ask(`${head('POST /a', five)}hello\r\n`)
    expect((await client.ask(head('GET /b'))).body).toBe('<GET /b >')
    client.send('\r')
    await askMeanwhile(gateway.port)
    expect((await client.ask('\n', head('GET /c'))).body).toBe('<GET /c >')
  })
})

describe('a connection', () => {
  test.each(['close', 'Close', 'keep-alive, close', 'close, x-other'])(
    'is closed after the answer to Connection: %s, which says so',
    async (value) => {
      const { gateway } = await start()
      const client = new AnswerClient(gateway.port)
      client.send(head('GET /a'), head('GET /b', `Connection: ${value}`))
      await client.closed()
      expect(client.answers.map(({ body }) => body)).toEqual(['<GET /a >', '<GET /b >'])
      expect(client.answers[1]?.headers).toMatchObject({ connection: 'close' })
      expect(client.answers[1]?.headers).not.toHaveProperty('keep-alive')
    },
  )

  test('is not read any further behind a request with Connection: close', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'), head('GET /b', 'Connection: close'), head('GET /c'))
    await client.closed()
    expect(client.answers.map(({ body }) => body)).toEqual(['<GET /a >', '<GET /b >'])
    expect(upstream.seen.map(({ url }) => url).sort()).toEqual(['/a', '/b'])
  })

  test('is closed after an answer of the gateway itself, if the client says so', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const { headers } = await client.ask(head('GET /health', 'Connection: close'))
    expect(headers).toMatchObject({ connection: 'close' })
    await client.closed()
  })

  test('stays open if the upstream has closed its own', async () => {
    const { gateway } = await start((_request, response) => {
      response.writeHead(200, { connection: 'close' }).end('ok')
    })
    const client = new AnswerClient(gateway.port)
    const { headers } = await client.ask(head('GET /a'))
    expect(headers).toMatchObject({ connection: 'keep-alive' })
    expect((await client.ask(head('GET /b'))).body).toBe('ok')
  })

  test('is closed after bytes that are not a request, and the rest is not read', async () => {
    const { upstream, gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'), 'GET /b\r\n\r\n', head('GET /c'))
    await client.closed()
    expect(client.statuses).toEqual([200, 400])
    expect(client.answers[1]?.headers).toMatchObject({ connection: 'close' })
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/a'])
  })
})

describe('HTTP/1.0', () => {
  test('is answered with a length, and closed', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.send(oldHead('GET /a'))
    await client.closed()
    expect(client.answers).toMatchObject([{ status: 200, framing: 'length', body: '<GET /a >' }])
    expect(client.answers[0]?.headers).toMatchObject({ connection: 'close' })
  })

  test('is answered with a length if it wants to be kept, and kept or closed', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    const keep = oldHead('GET /a', 'Connection: keep-alive')
    const { framing, headers } = await client.ask(keep)
    expect(framing).toBe('length')
    // A client without `Connection: keep-alive` must treat the connection as closed.
    if (headers.connection !== 'keep-alive') await client.closed()
    else expect((await client.ask(keep)).body).toBe('<GET /a >')
  })

  test.each([
    ['alone', []],
    ['that wants to be kept', ['Connection: keep-alive']],
  ])('%s gets no chunks: what has no length ends with the connection', async (_name, fields) => {
    const { gateway } = await start((_request, response) => {
      response.writeHead(200, { trailer: 'x-sum' })
      response.write('one ')
      response.write('two')
      response.addTrailers({ 'x-sum': '1' })
      response.end()
    })
    const client = new AnswerClient(gateway.port)
    client.send(oldHead('GET /', ...fields))
    await client.closed()
    expect(client.answers).toMatchObject([{ framing: 'close', body: 'one two' }])
    expect(client.answers[0]?.headers).not.toHaveProperty('transfer-encoding')
    expect(client.answers[0]?.headers).not.toHaveProperty('trailer')
    expect(client.answers[0]?.headers.connection).not.toBe('keep-alive')
  })

  test('gets no answer that is not final', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n')
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
    })
    const gateway = await startTestGateway({ upstreams: { api: { targets: [upstream.url] } } })
    const client = new AnswerClient(gateway.port)
    client.send(`${oldHead('POST /', 'Content-Length: 2', 'Expect: 100-continue')}hi`)
    await client.closed()
    expect(client.statuses).toEqual([200])
  })
})

describe('an answer without a body', () => {
  test('to HEAD keeps its length, and the connection continues', async () => {
    const { gateway } = await start((_request, response) => {
      response.setHeader('content-length', '5')
      response.end('hello')
    })
    const client = new AnswerClient(gateway.port, ['HEAD', 'HEAD', 'GET'])
    client.send(head('HEAD /a'), head('HEAD /b'), head('GET /c'))
    expect((await client.answer(2)).body).toBe('hello')
    expect(client.answers.map(({ headers }) => headers['content-length'])).toEqual(['5', '5', '5'])
    expect(client.rest).toBe('')
  })

  test('to HEAD may have no length, and the connection continues', async () => {
    const { gateway } = await start((_request, response) => {
      response.write('hello')
      response.end()
    })
    const client = new AnswerClient(gateway.port, ['HEAD', 'GET'])
    client.send(head('HEAD /a'), head('GET /b'))
    expect(await client.answer(1)).toMatchObject({ body: 'hello' })
    expect(client.answers[0]).toMatchObject({ status: 200, framing: 'no body' })
  })

  test('to HEAD is one of the gateway itself too', async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port, ['HEAD', 'HEAD', 'GET'])
    client.send(head('HEAD /health'), head('HEAD /\\'), head('GET /c'))
    expect((await client.answer(2)).body).toBe('<GET /c >')
    expect(client.statuses).toEqual([200, 400, 200])
  })

  test.each([204, 304])('of %i has none, and the connection continues', async (status) => {
    const { gateway } = await start(({ url }, response) => {
      if (url === '/a') response.writeHead(status).end()
      else response.end('next')
    })
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'), head('GET /b'))
    expect((await client.answer(1)).body).toBe('next')
    expect(client.statuses).toEqual([status, 200])
    expect(client.answers[0]?.headers).not.toHaveProperty('transfer-encoding')
    if (status === 204) expect(client.answers[0]?.headers).not.toHaveProperty('content-length')
  })
})

describe('the fields of an answer', () => {
  test('have one date, that of the upstream if it sends one', async () => {
    const date = 'Mon, 01 Jan 2024 00:00:00 GMT'
    const { gateway } = await start(({ url }, response) => {
      if (url === '/dated') response.setHeader('date', date)
      else response.sendDate = false
      response.end()
    })
    const client = new AnswerClient(gateway.port)
    expect((await client.ask(head('GET /dated'))).headers.date).toBe(date)
    for (const path of ['/undated', '/health', '/\\']) {
      const found = (await client.ask(head(`GET ${path}`))).headers.date ?? ''
      expect(new Date(found).toUTCString()).toBe(found)
      expect(Math.abs(Date.now() - Date.parse(found))).toBeLessThan(60_000)
    }
  })
})

describe('a client', () => {
  test("that has ended its side gets the gateway's own responses", async () => {
    const { gateway } = await start()
    const client = new AnswerClient(gateway.port)
    client.socket.end(head('GET /health') + head('GET /\\'))
    await client.closed()
    expect(client.statuses).toEqual([200, 400])
  })

  test.each([
    ['closes', (client: AnswerClient) => void client.socket.destroy()],
    ['resets', (client: AnswerClient) => void client.socket.resetAndDestroy()],
  ])('that %s while the upstream works takes its request with it', async (_name, leave) => {
    const { gateway, held } = await startHolding()
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'))
    const asked = await until('it is asked for', () => held[0])
    leave(client)
    await until('the upstream request is closed', () => asked.isClosed)
    await askMeanwhile(gateway.port)
  })

  test.each([
    ['with a length', head('POST /a', 'Content-Length: 1000000') + 'x'.repeat(200_000)],
    [
      'in chunks',
      `${head('POST /a', 'Transfer-Encoding: chunked')}30d40\r\n${'x'.repeat(200_000)}`,
    ],
  ])('that closes amid its upload %s breaks it off at the upstream', async (_name, bytes) => {
    let isAborted = false
    let received = 0
    const { upstream, gateway } = await start()
    upstream.server.prependListener('request', (request: IncomingMessage) => {
      request.on('error', () => {
        isAborted = true
      })
      request.on('data', (text: string) => {
        received += text.length
      })
    })
    const { socket } = openRaw(gateway.port)
    socket.write(bytes)
    await until('the upstream gets some of it', () => received > 0)
    socket.destroy()
    await until('the upstream request is closed', () => isAborted)
    expect(upstream.seen).toEqual([])
  })
})

describe('while the gateway stops', () => {
  test('an answer asks its client to go, and nothing more is read from it', async () => {
    const { upstream, gateway, held } = await startHolding({
      gateway: { timeouts: { drain: '1m' } },
    })
    const client = new AnswerClient(gateway.port)
    client.send(head('GET /a'))
    const asked = await until('it is asked for', () => held[0])
    const closed = gateway.close()
    asked.response.end('late')
    const answer = await client.answer(0)
    expect(answer).toMatchObject({ body: 'late', headers: { connection: 'close' } })
    expect(answer.headers).not.toHaveProperty('keep-alive')
    await client.closed()
    await closed
    expect(upstream.seen).toHaveLength(1)
  })

  test('a connection between two requests is closed, and not waited for', async () => {
    // Longer than the test may take.
    const timeouts = { drain: '10m' }
    const { gateway } = await start(undefined, { gateway: { timeouts } })
    const client = new AnswerClient(gateway.port)
    await client.ask(head('GET /a'))
    await gateway.close()
    await client.closed()
  })
})
