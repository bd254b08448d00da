/**
 * Concurrent calls from several connections are admitted exactly up to the limit. Calls with
 * several descriptors are charged all or nothing. The deadline is long, so that a busy machine does
 * not matter.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../support/servers/until.ts'
import { type RlsClient, request } from './rls-client.ts'
import { startTestRls, untilHealthy } from './rls-server.ts'
import { type StoreKind, serverNowMs, storeKinds } from './store-kinds.ts'

const config = `
domain: shop
descriptors:
  - { key: second, rate_limit: { unit: second, requests_per_unit: 100 } }
  - { key: year, rate_limit: { unit: year, requests_per_unit: 100 } }
  - { key: wide, rate_limit: { unit: year, requests_per_unit: 100000 } }
  - { key: narrow, rate_limit: { unit: year, requests_per_unit: 40 } }
`

/** Longer than a machine stalls: a call without an answer would be a failed one. */
const DEADLINE_MS = 30_000

const CALLS = 250

const LIMIT = 100

const CONNECTIONS = 4

/** Calls that start later in a second would not be answered within it. */
const BEGUN_MS_MAX = 150

/**
 * A try is exact if all calls are answered within its second. On a machine that stalls, few are.
 * The others have a bound: each of their seconds admits the limit once.
 */
const TRIES_MAX = 50

const EXACT_TRIES = 3

describe.each(Object.entries(storeKinds))('on %s', (_, start) => {
  let kind: StoreKind
  beforeAll(async () => {
    kind = await start()
  })
  afterAll(() => kind.stop())

  async function connections(): Promise<readonly RlsClient[]> {
    const rls = await startTestRls(config, { store: kind.store, storeDeadlineMs: DEADLINE_MS })
    await untilHealthy(rls)
    const others = Array.from({ length: CONNECTIONS - 1 }, () => rls.another())
    const clients = [rls.client, ...others]
    // Connect first, so that the calls are concurrent.
    for (const client of clients) await client.ask(request('shop', ['wide=first']))
    return clients
  }

  const askedAtOnce = (clients: readonly RlsClient[], ...descriptors: string[][]) =>
    Promise.all(
      Array.from({ length: CALLS }, (_, at) => {
        const client = clients[at % clients.length] as RlsClient
        return client.ask(request('shop', ...descriptors))
      }),
    )

  test('250 calls within a second at 100 a second are 100 times OK', async () => {
    const clients = await connections()
    let exact = 0
    for (let tries = 0; exact < EXACT_TRIES && tries < TRIES_MAX; tries++) {
      const begunMs = await until('a second has just begun', async () => {
        const nowMs = await serverNowMs(kind)
        return nowMs % 1_000 < BEGUN_MS_MAX && nowMs
      })
      const answers = await askedAtOnce(clients, [`second=try-${tries}`])
      const endedMs = await serverNowMs(kind)
      const seconds = Math.floor(endedMs / 1_000) - Math.floor(begunMs / 1_000) + 1
      const codes = answers.map((answer) => answer.overall_code)
      const admitted = codes.filter((code) => code === 'OK').length
      expect(admitted + codes.filter((code) => code === 'OVER_LIMIT').length).toBe(CALLS)
      expect(admitted).toBeGreaterThanOrEqual(LIMIT)
      expect(admitted).toBeLessThanOrEqual(Math.min(CALLS, LIMIT * seconds))
      if (seconds === 1) exact++
    }
    expect(exact).toBeGreaterThan(0)
  })

  test('250 calls at once at 100 a year are 100 times OK', async () => {
    const answers = await askedAtOnce(await connections(), ['year=exact'])
    expect(answers.filter((answer) => answer.overall_code === 'OK')).toHaveLength(100)
    expect(answers.filter((answer) => answer.overall_code === 'OVER_LIMIT')).toHaveLength(150)
  })

  test('of calls at once that one of two limits refuses, the other has the admitted', async () => {
    const clients = await connections()
    const [client] = clients as [RlsClient]
    const answers = await askedAtOnce(clients, ['wide=both'], ['narrow=both'])
    const admitted = answers.filter((answer) => answer.overall_code === 'OK').length
    expect(admitted).toBe(40)
    const used = async (key: string, limit: number) => {
      const entries = [{ key, value: 'both' }]
      const look = { domain: 'shop', descriptors: [{ entries, hits_addend: { value: 0 } }] }
      const { statuses } = await client.ask(look)
      return limit - (statuses[0]?.limit_remaining ?? 0)
    }
    await until('everything is given back', async () => {
      return (await used('wide', 100_000)) === admitted && (await used('narrow', 40)) === admitted
    })
  })
})
