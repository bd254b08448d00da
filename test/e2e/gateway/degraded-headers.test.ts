/** Headers for clients while the store is unreachable. */

import { request } from 'undici'
import { describe, expect, test } from 'vitest'
import { openAbsentStore } from './absent-store.ts'
import { startTestGateway } from './test-gateway.ts'
import { startUpstream } from './test-upstream.ts'

async function fieldsOf(onStoreError: string, gateway: object) {
  const upstream = await startUpstream()
  const { url } = await startTestGateway(
    {
      gateway,
      upstreams: { api: { targets: [upstream.url] } },
      limits: [{ name: 'all', key: 'everyone', limit: 5, per: '1h', onStoreError }],
    },
    { store: await openAbsentStore() },
  )
  const { statusCode, headers, body } = await request(url)
  await body.dump()
  const { 'x-ratelimit-status': status, 'x-ratelimit-warning': warning } = headers
  return { statusCode, limit: headers['x-ratelimit-limit'], status, warning }
}

describe('a response without the store', () => {
  test.each([
    ['open', 200],
    ['closed', 503],
  ])('says so, if the limit is %s', async (onStoreError, statusCode) => {
    expect(await fieldsOf(onStoreError, {})).toEqual({
      statusCode,
      limit: '5',
      status: 'degraded',
      warning: 'rate-limiter-unavailable',
    })
  })

  test.each([
    ['open', 200],
    ['closed', 503],
  ])(
    'does not say so with degradedHeaders: false, if the limit is %s',
    async (mode, statusCode) => {
      const found = await fieldsOf(mode, { degradedHeaders: false })
      expect(found).toEqual({ statusCode, limit: '5', status: undefined, warning: undefined })
    },
  )
})
