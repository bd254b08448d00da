import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import express, { type NextFunction, type Request, type Response } from 'express'
import fastify, { type FastifyReply } from 'fastify'
import { type Context, Hono } from 'hono'
import Koa from 'koa'
import { parseRateLimit } from 'ratelimit-header-parser'
import { parseList } from 'structured-headers'
import { describe, expect, it } from 'vitest'
import { middlewareContract } from '../http/contract/middleware-contract.ts'
import {
  type ContractOptions,
  type ContractRoutes,
  type ContractServer,
  contractClock,
  perMinute,
  START_MS,
  type StartServer,
  serverOpener,
} from '../http/contract/server-contract.ts'
import type { GuardDecision } from '../http/guard.ts'
import { tidegate as tidegateExpress } from './express.ts'
import { tidegate as tidegateFastify } from './fastify.ts'
import { tidegate as tidegateHono } from './hono.ts'
import { tidegate as tidegateKoa } from './koa.ts'
import { tidegate as tidegateNode } from './node.ts'

// Express 4 is installed under another name, and has the types of Express 5.
const express4: typeof express = createRequire(import.meta.url)('express4')

const starts: Readonly<Record<string, StartServer>> = {
  'Express 5': startExpress(express),
  'Express 4': startExpress(express4),
  Fastify: startFastify,
  Koa: startKoa,
  Hono: startHono,
  'node:http': startNode,
}

for (const [name, start] of Object.entries(starts)) {
  middlewareContract(name, start)
  headersAreRead(name, start)
}

function headersAreRead(name: string, start: StartServer): void {
  describe(`${name} writes header fields that others can read`, () => {
    const open = serverOpener(start)

    it('is a list of structured fields', async () => {
      const limits = { second: perMinute(20), 'per.day:1': perMinute(1000) }
      const { headers } = await (await open({ limits, clock: contractClock() })).get()
      expect(parseList(headers.get('ratelimit-policy') ?? '')).toEqual([
        [
          'second',
          new Map([
            ['q', 20],
            ['w', 60],
          ]),
        ],
        [
          'per.day:1',
          new Map([
            ['q', 1000],
            ['w', 60],
          ]),
        ],
      ])
      expect(parseList(headers.get('ratelimit') ?? '')).toEqual([
        [
          'second',
          new Map([
            ['r', 19],
            ['t', 60],
          ]),
        ],
        [
          'per.day:1',
          new Map([
            ['r', 999],
            ['t', 60],
          ]),
        ],
      ])
    })

    it('is understood by a parser of X-RateLimit fields', async () => {
      const options = {
        limit: perMinute(20),
        clock: contractClock(),
        headers: 'x-ratelimit',
      } as const
      expect(parseRateLimit(await (await open(options)).get())).toEqual({
        limit: 20,
        used: 1,
        remaining: 19,
        reset: new Date(START_MS + 60_000),
      })
    })
  })
}

function startExpress(create: typeof express): StartServer {
  return async (stack, routes) => {
    const app = create()
    for (const { respond, ...options } of stack) {
      const handler = async (_: Request, res: Response, _next: NextFunction, d: GuardDecision) =>
        res.send(await respond?.(d))
      app.use(tidegateExpress({ ...options, ...(respond && { handler }) }))
    }
    app.use((request, response, next) => {
      statusOf(routes, request.path, response).then(
        (status) => response.status(status).send('ok'),
        next,
      )
    })
    app.use((error: Error, _request: Request, response: Response, _next: NextFunction) => {
      response.status(500).send(error.message)
    })
    return listening(createServer(app))
  }
}

async function startFastify(
  stack: readonly ContractOptions[],
  routes: ContractRoutes,
): Promise<ContractServer> {
  const app = fastify()
  for (const { respond, ...options } of stack) {
    const handler = async (_: unknown, reply: FastifyReply, decision: GuardDecision) =>
      reply.send(await respond?.(decision))
    await app.register(tidegateFastify, { ...options, ...(respond && { handler }) })
  }
  app.setErrorHandler((error: Error, _request, reply) => reply.code(500).send(error.message))
  app.get('/*', async (request, reply) => {
    return reply.code(await statusOf(routes, request.url, reply.raw)).send('ok')
  })
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
}

async function startKoa(
  stack: readonly ContractOptions[],
  routes: ContractRoutes,
): Promise<ContractServer> {
  const app = new Koa()
  app.use(async (context, next) => {
    await next().catch((error: Error) => {
      context.status = 500
      context.body = error.message
    })
  })
  for (const { respond, ...options } of stack) {
    const handler = async (context: Koa.Context, decision: GuardDecision) => {
      context.body = await respond?.(decision)
    }
    app.use(tidegateKoa({ ...options, ...(respond && { handler }) }))
  }
  app.use(async (context) => {
    context.status = await statusOf(routes, context.path, context.res)
    context.body = 'ok'
  })
  return listening(createServer(app.callback()))
}

async function startHono(
  stack: readonly ContractOptions[],
  routes: ContractRoutes,
): Promise<ContractServer> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  for (const { respond, ...options } of stack) {
    const handler = async (context: Context, decision: GuardDecision) =>
      context.text((await respond?.(decision)) ?? '')
    app.use(tidegateHono({ ...options, ...(respond && { handler }) }))
  }
  app.get('/*', async (context) => {
    const status = await statusOf(routes, context.req.path, context.env.outgoing)
    return context.text('ok', status as 200)
  })
  app.onError((error, context) => context.text(error.message, 500))
  return listening(createAdaptorServer(app) as Server)
}

async function startNode(
  stack: readonly ContractOptions[],
  routes: ContractRoutes,
): Promise<ContractServer> {
  const guards = stack.map(({ respond, ...options }) => {
    const handler = async (_: unknown, response: ServerResponse, decision: GuardDecision) =>
      response.end(await respond?.(decision))
    return tidegateNode({ ...options, ...(respond && { handler }) })
  })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    for (const guard of guards) if (!(await guard(request, response))) return
    response.statusCode = await statusOf(routes, request.url ?? '/', response)
    response.end('ok')
  }
  return listening(
    createServer((request, response) => {
      answer(request, response).catch((error: Error) => {
        response.statusCode = 500
        response.end(error.message)
      })
    }),
  )
}

async function statusOf(routes: ContractRoutes, path: string, response: ServerResponse) {
  return (await routes[path]?.(response)) ?? 200
}

async function listening(server: Server): Promise<ContractServer> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => new Promise((resolve) => server.close(resolve))
  return { url: `http://127.0.0.1:${port}`, close }
}
