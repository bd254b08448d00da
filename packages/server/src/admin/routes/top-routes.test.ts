import { expect, test } from 'vitest'
import { BOOTSTRAP, startAdminService } from '../admin-contract.ts'

const policy = `
store: { mode: memory }
decisionApi: { listen: { port: 0 }, token: { env: ADMIN_TOKEN } }
limits:
  - { name: api, key: organisation, otherwise: skip, limit: 2, per: 1h }
  - { name: other, key: user, otherwise: skip, limit: 9, per: 1h }`

interface Listed {
  readonly limit: string
  readonly key: string
  readonly count: number
  readonly error: number
}

async function setup() {
  const service = await startAdminService({ policy })
  const port = service.service.decisionApi?.address.port
  const check = async (name: string, key: string, times: number) => {
    for (let at = 0; at < times; at++) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/check`, {
        method: 'POST',
        headers: { authorization: `Bearer ${BOOTSTRAP}` },
        body: JSON.stringify({ limits: [{ name, key: [key] }] }),
      })
      await response.arrayBuffer()
    }
  }
  const top = async (query: string, token: string = BOOTSTRAP) => {
    const { body } = await service.call('GET', `/v1/top${query}`, { token })
    return body as { keys: readonly Listed[]; total: number }
  }
  return { ...service, check, top }
}

test('lists the keys that are refused most, of all limits or of one', async () => {
  const { check, top } = await setup()
  await check('api', 'acme', 5)
  await check('api', 'tiny', 3)
  await check('other', 'ada', 11)
  expect(await top('')).toMatchObject({
    total: 6,
    keys: [
      { limit: 'api', key: 'acme', count: 3, error: 0 },
      { limit: 'other', key: 'ada', count: 2, error: 0 },
      { limit: 'api', key: 'tiny', count: 1, error: 0 },
    ],
  })
  expect((await top('?limit=other')).keys).toHaveLength(1)
  expect((await top('?count=2')).keys).toHaveLength(2)
})

test('lists the keys that ask most, allowed or not', async () => {
  const { check, top } = await setup()
  await check('other', 'ada', 200)
  const { keys } = await top('?by=asked')
  expect(keys).toMatchObject([{ limit: 'other', key: 'ada', error: 0 }])
})

test('the role read gets digests, which stay the same', async () => {
  const { check, top, tokenFor } = await setup()
  await check('api', 'acme', 3)
  const token = await tokenFor('read')
  const [first] = (await top('', token)).keys
  const [again] = (await top('', token)).keys
  expect(first?.key).toMatch(/^hmac-sha256:[0-9a-f]{16}$/)
  expect(again).toEqual(first)
  expect(JSON.stringify(await top('', token))).not.toContain('acme')
  const [shown] = (await top('', await tokenFor('operate'))).keys
  expect(shown?.key).toBe('acme')
})

test('a list with keys has a record in the audit, one with digests has none', async () => {
  const { call, top, tokenFor } = await setup()
  const records = async () => {
    const { body } = await call('GET', '/v1/audit?action=top.read')
    return (body.records as readonly object[]).length
  }
  await top('', await tokenFor('read'))
  expect(await records()).toBe(0)
  await top('?limit=api')
  expect(await records()).toBe(1)
})

test.each(['?by=fame', '?count=0', '?count=1000', '?count=x'])('%s is refused', async (query) => {
  const { call } = await setup()
  expect((await call('GET', `/v1/top${query}`)).status).toBe(422)
})
