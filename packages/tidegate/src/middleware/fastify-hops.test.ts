/**
 * `trustProxy` of Fastify as a number, which its types refuse: it trusts no proxy then. In its own
 * file, because a process is warned once.
 */

import fastify from 'fastify'
import { expect, it } from 'vitest'
import { fixedWindow } from '../limits/limits.ts'
import { type FastifyOptions, tidegate } from './fastify.ts'

const limit = fixedWindow({ limit: 1, per: '1d' })

it('trusts no proxy, as Fastify does, and warns of it', async () => {
  const warned = new Promise<Error>((resolve) => process.once('warning', resolve))
  expect(await statuses({ limit }, ['192.0.2.1', '192.0.2.2'])).toEqual([200, 429])
  expect((await warned).message).toContain('trustProxy of Fastify with addresses')
})

it('is replaced by the number of the middleware', async () => {
  const forwarded = ['198.51.100.7, 192.0.2.1', '203.0.113.9, 192.0.2.1', '192.0.2.2']
  expect(await statuses({ limit, trustProxy: 1 }, forwarded)).toEqual([200, 429, 200])
})

/** The statuses of requests with these `X-Forwarded-For`, with the plugin in a child instance. */
async function statuses(options: FastifyOptions, forwarded: readonly string[]): Promise<number[]> {
  const app = fastify({ trustProxy: 1 } as object)
  await app.register(async (child) => {
    await child.register(tidegate, options)
    child.get('/', async (request) => request.ip)
  })
  const all: number[] = []
  for (const addresses of forwarded) {
    const headers = { 'x-forwarded-for': addresses }
    all.push((await app.inject({ url: '/', headers })).statusCode)
  }
  await app.close()
  return all
}
