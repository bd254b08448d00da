import fastify from 'fastify'
import { expect, it, onTestFinished } from 'vitest'
import { fixedWindow } from '../../limits/limits.ts'
import { type FastifyOptions, tidegate } from '../fastify.ts'
import { type FastifyIdempotencyOptions, idempotency } from './fastify.ts'

/** Keys, then a limit of one request, in the order that the documents show. */
async function start(
  options: Partial<FastifyOptions> = {},
  keys: Partial<FastifyIdempotencyOptions> = {},
) {
  const app = fastify()
  onTestFinished(() => app.close())
  await app.register(idempotency, { scope: () => 'ada', ...keys })
  await app.register(tidegate, {
    ...{ limit: fixedWindow({ limit: 1, per: '1h' }), key: () => 'one' },
    ...options,
  })
  app.post('/', async () => 'done')
  return async (key: string | undefined, payload = '{}') => {
    const field = key === undefined ? {} : { 'idempotency-key': key }
    const headers = { 'content-type': 'application/json', ...field }
    return (await app.inject({ method: 'POST', url: '/', headers, payload })).statusCode
  }
}

it('replays are free, and the next key is refused by the limit', async () => {
  const post = await start()
  expect([await post('a'), await post('a'), await post('a')]).toEqual([200, 200, 200])
  expect([await post('b'), await post('a')]).toEqual([429, 200])
})

it('a request without a key is refused before its body is parsed', async () => {
  const post = await start()
  expect([await post(undefined), await post(undefined, '{')]).toEqual([200, 429])
})

it('a required key that is missing is refused without a charge', async () => {
  const post = await start({}, { required: true })
  expect([await post(undefined), await post('a')]).toEqual([400, 200])
})

it('every request is counted if the hook is onRequest', async () => {
  const post = await start({ hook: 'onRequest' })
  expect([await post('a'), await post('a')]).toEqual([200, 429])
})
