import { describe, expect, test } from 'vitest'
import { startAdminService } from '../admin-contract.ts'

const policy = `
upstreams: { api: { targets: ['http://127.0.0.1:9'] } }
decisionApi: { listen: { port: 0 }, token: { env: ADMIN_TOKEN } }
limits:
  - { name: api, key: organisation, otherwise: ip, limit: 2, per: 1h }
  - { name: posts, match: { methods: [POST] }, key: ip, limit: 2, per: 1h }
`

const ORGANISATION = 'acme <b>'

async function started() {
  const started = await startAdminService({ policy })
  const apiUrl = `http://127.0.0.1:${started.service.decisionApi?.address.port}`
  const ask = async () => {
    const headers = {
      authorization: 'Bearer bootstrap-token-of-the-tests-0123456789',
      'content-type': 'application/json',
    }
    const request = { method: 'GET', path: '/', identity: { organisation: ORGANISATION } }
    const body = JSON.stringify({ request })
    return (await fetch(`${apiUrl}/v1/check`, { method: 'POST', headers, body })).json()
  }
  return { ...started, ask }
}

/** The text of a stream up to a number of occurrences of another text. */
async function readUntil(
  url: string,
  headers: Record<string, string>,
  wanted: string,
  count: number,
): Promise<string> {
  const response = await fetch(url, { headers })
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.split(wanted).length > count) break
  }
  return text
}

describe('the stream', () => {
  test('begins with a snapshot; the role read gets digests instead of keys', async () => {
    const { call, tokenFor, ask } = await started()
    for (let at = 0; at < 4; at++) await ask()
    const read = await call('GET', '/v1/stream', { token: await tokenFor('read') })
    expect(read.headers.get('content-type')).toBe('text/event-stream')
    expect(read.text).toMatch(/^retry: 1000\n\nevent: snapshot\ndata: \{/)
    expect(read.text).not.toContain('acme')
    const raw = await call('GET', '/v1/stream', { token: await tokenFor('operate') })
    expect(raw.text).toContain(ORGANISATION)
  })

  test('has as its second event a tick', async () => {
    const { url } = await started()
    const headers = { authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' }
    const text = await readUntil(`${url}/v1/stream`, headers, 'event: tick\n', 1)
    expect(text.match(/event: snapshot/g)).toHaveLength(1)
  })

  test('goes on after the last event that a page has seen', async () => {
    const { url } = await started()
    const headers = { authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' }
    const seen = await readUntil(`${url}/v1/stream`, headers, 'event: tick\n', 2)
    const [first = '', second = ''] = seen.match(/(?<=\nid: ).+(?=\n)/g)?.slice(1) ?? []
    expect(second).not.toBe(first)
    const back = { ...headers, 'last-event-id': first }
    const again = await readUntil(`${url}/v1/stream`, back, 'event: tick\n', 2)
    expect(again).not.toContain('event: snapshot')
    expect(again).toContain(`id: ${second}\n`)
    expect(again).not.toContain(`id: ${first}\n`)
    for (const unknown of ['other-1', `${first}0000`, 'x'.repeat(5_000)]) {
      const from = { ...headers, 'last-event-id': unknown }
      expect(await readUntil(`${url}/v1/stream`, from, '\nid:', 1)).toContain('event: snapshot')
    }
  })

  test('does not hold up a service that stops', async () => {
    const { url, service } = await started()
    const headers = { authorization: 'Bearer bootstrap-token-of-the-tests-0123456789' }
    const response = await fetch(`${url}/v1/stream`, { headers })
    await service.close()
    let text = ''
    for await (const chunk of response.body ?? []) text += new TextDecoder().decode(chunk)
    expect(text).toContain('event: snapshot')
  })
})

test('a client is looked up with what it used, and why the other limits do not apply', async () => {
  const { call, ask } = await started()
  for (let at = 0; at < 4; at++) await ask()
  const body = { kind: 'organisation', value: ORGANISATION }
  const found = await call('POST', '/v1/clients/look-up', { body })
  expect(found.body).toMatchObject({
    block: null,
    limits: [
      {
        name: 'api',
        state: { used: 2, left: 0, keyParts: [ORGANISATION], refusals: { count: 2 } },
      },
      { name: 'posts', state: null, reason: 'the method is not POST' },
    ],
  })
  const wrong = await call('POST', '/v1/clients/look-up', { body: { kind: 'ip', value: 'x' } })
  expect([wrong.status, wrong.body.detail]).toEqual([
    422,
    'value: "x" is not allowed; allowed: an IP address',
  ])
})

test('another policy is tried, and one with problems is told', async () => {
  const { call, ask } = await started()
  for (let at = 0; at < 4; at++) await ask()
  const tried = await call('POST', '/v1/policy/what-if', {
    body: { text: policy.replace('limit: 2', 'limit: 3') },
  })
  expect(tried.body).toMatchObject({
    problems: [],
    limits: [{ name: 'api', asked: 4, deniedBefore: 2, deniedAfter: 1 }],
  })
  const broken = await call('POST', '/v1/policy/what-if', { body: { text: 'limits: 1' } })
  expect(broken.body.problems).toHaveLength(1)
})
