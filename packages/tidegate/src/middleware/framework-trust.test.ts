/** The proxy trust of each framework, as a user sets it, is the trust of the middleware. */

import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import { afterEach, describe, expect, it } from 'vitest'
import { fixedWindow } from '../policy/limits.ts'
import { tidegate as tidegateExpress } from './express.ts'
import { tidegate as tidegateFastify } from './fastify.ts'
import { tidegate as tidegateKoa } from './koa.ts'

// Express 4 is installed under another name, and has the types of Express 5.
const express4: typeof express = createRequire(import.meta.url)('express4')

const limit = fixedWindow({ limit: 1, per: '1d' })

const closers: (() => unknown)[] = []
afterEach(async () => {
  await Promise.all(closers.splice(0).map((close) => close()))
})

const starts: Readonly<Record<string, (trusts: boolean) => Promise<string>>> = {
  'Express 5': (trusts) => listening(expressApp(express, trusts)),
  'Express 4': (trusts) => listening(expressApp(express4, trusts)),
  async Fastify(trusts) {
    const app = fastify({ trustProxy: trusts ? '127.0.0.1' : false })
    await app.register(tidegateFastify, { limit })
    app.get('/', async () => 'ok')
    closers.push(() => app.close())
    return app.listen({ port: 0, host: '127.0.0.1' })
  },
  Koa(trusts) {
    const app = new Koa({ proxy: trusts, maxIpsCount: 1 })
    app.use(tidegateKoa({ limit }))
    app.use((context) => {
      context.body = 'ok'
    })
    return listening(app.callback())
  },
}

describe.each(Object.entries(starts))('the proxy trust of %s', (_, start) => {
  it('tells clients apart by the address that the proxy has added', async () => {
    const url = await start(true)
    expect(await statusOf(url, '192.0.2.1')).toBe(200)
    expect(await statusOf(url, '192.0.2.2')).toBe(200)
    expect(await statusOf(url, '198.51.100.7, 192.0.2.1')).toBe(429)
    expect(await statusOf(url, '2001:db8:0:1::1')).toBe(200)
    expect(await statusOf(url, '2001:db8:0:1:aaaa::2')).toBe(429)
  })

  it('is needed', async () => {
    const url = await start(false)
    expect(await statusOf(url, '192.0.2.1')).toBe(200)
    expect(await statusOf(url, '192.0.2.2')).toBe(429)
  })
})

function expressApp(create: typeof express, trusts: boolean) {
  const app = create()
  if (trusts) app.set('trust proxy', 1)
  app.use(tidegateExpress({ limit }))
  app.get('/', (_request, response) => void response.send('ok'))
  return app
}

async function listening(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function statusOf(url: string, forwarded: string): Promise<number> {
  const response = await fetch(url, { headers: { 'x-forwarded-for': forwarded } })
  await response.arrayBuffer()
  return response.status
}
