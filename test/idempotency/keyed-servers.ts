/** One server for each framework, with idempotency keys and the same routes: for tests. */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createAdaptorServer } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { isCharged } from '../../packages/tidegate/src/idempotency/charged.ts'
import type { IdempotencyOptions } from '../../packages/tidegate/src/idempotency/idempotency-options.ts'
import type { Limit } from '../../packages/tidegate/src/index.ts'
import { tidegate as limitsOfExpress } from '../../packages/tidegate/src/middleware/express.ts'
import { tidegate as limitsOfFastify } from '../../packages/tidegate/src/middleware/fastify.ts'
import { tidegate as limitsOfHono } from '../../packages/tidegate/src/middleware/hono.ts'
import { idempotency as keysOfExpress } from '../../packages/tidegate/src/middleware/idempotency/express.ts'
import { idempotency as keysOfFastify } from '../../packages/tidegate/src/middleware/idempotency/fastify.ts'
import { idempotency as keysOfHono } from '../../packages/tidegate/src/middleware/idempotency/hono.ts'
import { idempotency as keysOfKoa } from '../../packages/tidegate/src/middleware/idempotency/koa.ts'
import { idempotency as keysOfNode } from '../../packages/tidegate/src/middleware/idempotency/node.ts'
import { tidegate as limitsOfKoa } from '../../packages/tidegate/src/middleware/koa.ts'
import { tidegate as limitsOfNode } from '../../packages/tidegate/src/middleware/node.ts'

export interface Made {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | readonly Uint8Array[]
}

/** Makes the response to the path and the body of a request. */
export type Make = (path: string, body: string) => Promise<Made>

export interface TestServer {
  readonly url: string
  close(): Promise<unknown>
}

/** With a limit, keys that were charged before are not charged again. */
export type StartServer = (
  make: Make,
  options: IdempotencyOptions,
  limit?: Limit,
) => Promise<TestServer>

const user = 'x-user'

const one = () => 'one'

export const servers: Readonly<Record<string, StartServer>> = {
  'Express 5': async (make, options, limit) => {
    const app = express()
    app.use(keysOfExpress({ ...options, scope: (request) => request.get(user) }))
    if (limit !== undefined) app.use(limitsOfExpress({ limit, key: one, skip: isCharged }))
    app.use(express.text({ type: '*/*', limit: '20mb' }))
    app.use((request, response, next) => {
      make(request.path, typeof request.body === 'string' ? request.body : '').then((made) => {
        response.status(made.status).set(made.headers)
        if (made.body instanceof Uint8Array) response.end(made.body)
        else Readable.from(made.body).pipe(response)
      }, next)
    })
    return listening(createServer(app))
  },
  Fastify: async (make, options, limit) => {
    const app = fastify({ bodyLimit: 20 * 1_024 ** 2 })
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
    await app.register(keysOfFastify, {
      ...options,
      scope: (request) => request.headers[user]?.toString(),
    })
    if (limit !== undefined) {
      await app.register(limitsOfFastify, { limit, key: one, skip: isCharged })
    }
    app.all('/*', async (request, reply) => {
      const made = await make(request.url, typeof request.body === 'string' ? request.body : '')
      reply.code(made.status).headers(made.headers)
      return reply.send(
        made.body instanceof Uint8Array ? Buffer.from(made.body) : Readable.from(made.body),
      )
    })
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  Koa: async (make, options, limit) => {
    const app = new Koa()
    app.use(keysOfKoa({ ...options, scope: (context) => context.get(user) }))
    if (limit !== undefined) app.use(limitsOfKoa({ limit, key: one, skip: isCharged }))
    app.use(async (context) => {
      const made = await make(context.path, await textOf(context.req))
      context.status = made.status
      context.set(made.headers)
      const isWhole = made.body instanceof Uint8Array
      context.body = isWhole ? Buffer.from(made.body) : Readable.from(made.body)
      context.status = made.status
    })
    return listening(createServer(app.callback()))
  },
  Hono: async (make, options, limit) => {
    const app = new Hono()
    app.use(keysOfHono({ ...options, scope: (context) => context.req.header(user) }))
    if (limit !== undefined) app.use(limitsOfHono({ limit, key: one, skip: isCharged }))
    app.all('/*', async (context) => {
      const { status, headers, body } = await make(context.req.path, await context.req.text())
      const isBare = status === 204 || status === 304
      const stream =
        body instanceof Uint8Array ? Buffer.from(body) : Readable.toWeb(Readable.from(body))
      return new Response(isBare ? null : (stream as ReadableStream), { status, headers })
    })
    return listening(createAdaptorServer(app) as Server)
  },
  'node:http': async (make, options, limit) => {
    const useKey = keysOfNode({ ...options, scope: ({ headers }) => headers[user]?.toString() })
    const isWithin = limit && limitsOfNode({ limit, key: one, skip: isCharged })
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      if (!(await useKey(request, response))) return
      if (isWithin !== undefined && !(await isWithin(request, response))) return
      const made = await make(request.url ?? '', await textOf(request))
      response.writeHead(made.status, made.headers)
      if (!(made.body instanceof Uint8Array)) {
        for (const chunk of made.body) response.write(chunk)
        response.end()
      } else response.end(made.body)
    }
    return listening(createServer((request, response) => void answer(request, response)))
  },
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

async function listening(server: Server): Promise<TestServer> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  }
  return { url: `http://127.0.0.1:${port}`, close }
}
