/** The proxy trust of each framework, as a user sets it, is the trust of the middleware. */

import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import express from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import { afterEach, describe, expect, it } from 'vitest'
import { fixedWindow } from '../limits/limits.ts'
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

/** One client behind a proxy on this machine, and what each setting takes for its address. */
const forwarded = '198.51.100.7, 192.0.2.1'
const lastEntry = { of: forwarded, sameAs: '203.0.113.9, 192.0.2.1', otherThan: '192.0.2.2' }
const firstEntry = { of: forwarded, sameAs: '198.51.100.7', otherThan: '192.0.2.1' }
const behindTwo = {
  of: '192.0.2.1, 10.1.2.3',
  sameAs: '192.0.2.1, 10.9.9.9',
  otherThan: '192.0.2.2',
}
const onlyPeer = { of: forwarded, sameAs: '203.0.113.9', otherThan: undefined }

type Trusted = (address: string, hop: number) => boolean
type Trust = string | number | boolean | string[] | Trusted
const isLoopback: Trusted = (address) => address === '127.0.0.1'

describe.each<[string, Exclude<Trust, number>, Client]>([
  ['true', true, firstEntry],
  ['an address', '127.0.0.1', lastEntry],
  ['a list', ['127.0.0.1', '10.0.0.0/8'], behindTwo],
  ['a list in one text', '127.0.0.1,10.0.0.0/8', behindTwo],
  ['a function', isLoopback, lastEntry],
  ['an address that is not the proxy', '10.0.0.1', onlyPeer],
])('trustProxy of Fastify as %s', (_, trustProxy, client) => {
  it('decides whose counter it is', async () => {
    const app = fastify({ trustProxy })
    await app.register(tidegateFastify, { limit })
    app.get('/', async (request) => request.ip)
    closers.push(() => app.close())
    await expectClient(await app.listen({ port: 0, host: '127.0.0.1' }), client)
  })
})

describe.each<[string, Trust, Client]>([
  ['1', 1, lastEntry],
  ['2', 2, behindTwo],
  ['true', true, firstEntry],
  ['loopback', 'loopback', lastEntry],
  ['a list', ['127.0.0.1', '10.0.0.0/8'], behindTwo],
  ['a function', isLoopback, lastEntry],
  ['an address that is not the proxy', '10.0.0.1', onlyPeer],
])('trust proxy of Express as %s', (_, trust, client) => {
  it.each([
    ['Express 5', express],
    ['Express 4', express4],
  ])('decides whose counter it is on %s', async (_name, create) => {
    const app = create()
    app.set('trust proxy', trust)
    app.use(tidegateExpress({ limit }))
    app.get('/', (request, response) => void response.send(request.ip))
    await expectClient(await listening(app), client)
  })
})

/** Fields of `X-Forwarded-For`. */
interface Client {
  readonly of: string
  /** From the same client. */
  readonly sameAs: string
  /** From another one; undefined if all are the same. */
  readonly otherThan: string | undefined
}

async function expectClient(url: string, client: Client): Promise<void> {
  expect(await statusOf(url, client.of)).toBe(200)
  expect(await statusOf(url, client.sameAs)).toBe(429)
  if (client.otherThan !== undefined) expect(await statusOf(url, client.otherThan)).toBe(200)
}

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
