/** The routes by which operators give up a region that is lost. */

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { policyText, startAdminService } from '../../../packages/server/src/admin/admin-contract.ts'
import { makeRegionCertificates } from '../../support/regions/region-certificates.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})

afterAll(() => redis?.stop())

/** A node in eu. No other region answers. */
async function startRegion() {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const certificate = makeRegionCertificates(folder, ['eu']).get('eu')
  const endpoint = `127.0.0.1:${await freePort()}`
  const regions = {
    list: { eu: { endpoint }, us: { endpoint }, ap: { endpoint } },
    link: { listen: { host: '127.0.0.1', port: await freePort() }, ...certificate },
  }
  const store = { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`] }
  const sections = Object.entries({ region: 'eu', regions, store }).map(
    ([name, section]) => `${name}: ${JSON.stringify(section)}`,
  )
  return startAdminService({ policy: [policyText, ...sections].join('\n') })
}

const PATH = '/v1/regions/forgotten'
const why = 'the data center is gone'

test('a region that does not answer is forgotten, with a record', async () => {
  const { call } = await startRegion()
  const body = { region: 'us', why }
  const forgotten = await call('PUT', PATH, { body })
  expect(forgotten).toMatchObject({ status: 200, body: { entry: body } })
  const { body: status } = await call('GET', '/v1/status')
  expect(status).toMatchObject({ regions: { forgotten: ['us'] } })
  const { body: audit } = await call('GET', '/v1/audit')
  expect(audit.records).toContainEqual(
    expect.objectContaining({
      action: 'region.forget',
      target: { type: 'region', id: 'us' },
      reason: why,
      result: 'done',
    }),
  )
  expect(await call('PUT', PATH, { body })).toMatchObject({ status: 409 })
})

test.each([
  ['its own region', 'eu', 'in the region eu'],
  ['a region that the list does not have', 'sa', 'allowed: ap, us'],
])('%s is not forgotten', async (_, region, problem) => {
  const { call } = await startRegion()
  const { status, text } = await call('PUT', PATH, { body: { region, why } })
  expect(status).toBe(422)
  expect(text).toContain(problem)
})

test('a region is remembered only after it left the list', async () => {
  const { call } = await startRegion()
  await call('PUT', PATH, { body: { region: 'us', why } })
  const early = await call('POST', `${PATH}/remove`, { body: { region: 'us', why } })
  expect(early).toMatchObject({ status: 409 })
  const unknown = await call('POST', `${PATH}/remove`, { body: { region: 'sa', why } })
  expect(unknown).toMatchObject({ status: 404 })
})

test('only admins forget a region', async () => {
  const { call, tokenFor } = await startRegion()
  const token = await tokenFor('operate')
  expect(await call('PUT', PATH, { token, body: { region: 'us', why } })).toMatchObject({
    status: 403,
  })
})
