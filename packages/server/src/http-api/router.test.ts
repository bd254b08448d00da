import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { ApiError } from './api-error.ts'
import { listen } from './listener.ts'
import { textResponse } from './messages.ts'
import { type RouterOptions, router } from './router.ts'

async function start(options: RouterOptions): Promise<string> {
  const listener = await listen(router(options), { host: '127.0.0.1', port: 0 })
  onTestFinished(() => listener.close())
  return `http://127.0.0.1:${listener.address.port}`
}

const routes: RouterOptions['routes'] = {
  '/page': { GET: ({ path }) => textResponse(200, path) },
  '/any': { any: ({ method }) => textResponse(200, method) },
  '/echo': { POST: async (request) => textResponse(200, await request.text(10)) },
  '/broken': {
    GET: () => {
      throw new Error('a secret')
    },
  },
}

test('finds a handler by path and method, whatever the query is', async () => {
  const url = await start({ routes })
  expect(await (await fetch(`${url}/page?x=1`)).text()).toBe('/page')
  expect(await (await fetch(`${url}/any`, { method: 'PUT' })).text()).toBe('PUT')
  expect(await (await fetch(`${url}/echo`, { method: 'POST', body: 'äb' })).text()).toBe('äb')
})

test.for(['/', '/page/', '/__proto__', '/constructor'])('%s is 404', async (path) => {
  const url = await start({ routes })
  const response = await fetch(`${url}${path}`)
  expect(response.status).toBe(404)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  expect(await response.json()).toMatchObject({ title: 'Not Found', status: 404 })
})

test('another method is 405, with those that are allowed', async () => {
  const url = await start({ routes })
  const response = await fetch(`${url}/page`, { method: 'DELETE' })
  expect(response.status).toBe(405)
  expect(response.headers.get('allow')).toBe('GET')
})

test('an unexpected error is 500, and is not described', async () => {
  const url = await start({ routes })
  const response = await fetch(`${url}/broken`)
  expect(response.status).toBe(500)
  expect(await response.text()).not.toContain('secret')
})

test('a body that is too long is 413, and closes its connection', async () => {
  const url = await start({ routes })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let received = ''
  socket.on('data', (chunk) => {
    received += chunk
  })
  socket.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n12345678901')
  await new Promise((resolve) => socket.once('close', resolve))
  expect(received).toMatch(/^HTTP\/1\.1 413 /)
  expect(received).toContain('connection: close')
})

/** Sends a body in chunks of one byte; returns the response. */
async function chunkBytes(url: string, bytes: number): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  let received = ''
  socket.on('data', (chunk) => {
    received += chunk
  })
  const head = 'POST /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
  const body = `${'1\r\nx\r\n'.repeat(bytes)}0\r\n\r\n`
  socket.on('error', () => undefined)
  socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n${body}`)
  await new Promise((resolve) => socket.once('close', resolve))
  return received
}

test('a short body in chunks of one byte is read, a long one closes its connection', async () => {
  const long: RouterOptions['routes'] = {
    '/long': {
      POST: async (request) => textResponse(200, String((await request.text(100_000)).length)),
    },
  }
  const url = await start({ routes: long })
  expect(await chunkBytes(url, 1_000)).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n1000\r\n/)
  expect(await chunkBytes(url, 1_100)).toBe('')
})

test('the guard is around everything but public routes', async () => {
  const guard = async () => {
    throw new ApiError(401, 'Send a token.', { 'WWW-Authenticate': 'Bearer' })
  }
  const publicRoutes = { '/open': { GET: () => textResponse(200, 'open') } }
  const url = await start({ routes, publicRoutes, guard })
  expect(await (await fetch(`${url}/open`)).text()).toBe('open')
  for (const path of ['/page', '/none']) {
    const response = await fetch(`${url}${path}`)
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer')
  }
})
