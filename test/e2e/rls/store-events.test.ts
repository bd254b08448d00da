/** What `tidegate rls` logs about its store, with a real Redis that stops and continues. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import { request, rlsClient } from './rls-client.ts'
import { startRlsProcess } from './rls-process.ts'

const config = `
domain: d
descriptors:
  - key: k
    rate_limit: { unit: hour, requests_per_unit: 1000000, accuracy: exact, on_store_error: open }
`

async function start(format: 'text' | 'json') {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const environment = {
    REDIS_URL: `${redis.host}:${redis.port}`,
    LOG_FORMAT: format,
    // The lines of calls without the store would push out the others.
    TIDEGATE_LOG_LINES: '1',
  }
  const rls = await startRlsProcess(config, environment)
  onTestFinished(() => rls.stop())
  const client = rlsClient(rls.port)
  onTestFinished(() => client.close())
  let calls = 0
  const isLogged = async (text: string) => {
    await client.ask(request('d', [`k=${calls++}`]))
    return rls.output().includes(text)
  }
  return { redis, rls, isLogged }
}

/** The whole lines of a log in JSON. */
function linesOf(output: string) {
  const whole = output.split('\n').slice(0, -1)
  return whole.filter((line) => line.startsWith('{"')).map((line) => JSON.parse(line))
}

describe('the log of tidegate rls', () => {
  test('has an outage of Redis and its end as JSON', async () => {
    const { redis, rls, isLogged } = await start('json')
    redis.kill('SIGSTOP')
    await until('the breaker is logged', () => isLogged('"event":"store.breaker"'))
    // Read before the recovery, because only the end of the output is kept.
    const lines = linesOf(rls.output())
    redis.kill('SIGCONT')
    await until('the recovery is logged', () => isLogged('"event":"store.recovered"'))
    expect(lines.find(({ event }) => event === 'store.breaker')).toMatchObject({
      level: 'warn',
      from: 'closed',
      to: 'open',
      message: expect.stringContaining('store.breaker from=closed to=open'),
    })
    const recovered = linesOf(rls.output()).find(({ event }) => event === 'store.recovered')
    expect(recovered.outage_ms).toBeGreaterThan(0)
  })

  test('has them as text', async () => {
    const { redis, isLogged } = await start('text')
    redis.kill('SIGSTOP')
    const breaker = 'tidegate rls: store.breaker from=closed to=open\n'
    await until('the breaker is logged', () => isLogged(breaker))
    redis.kill('SIGCONT')
    await until('the recovery is logged', () =>
      isLogged('tidegate rls: store.recovered outage_ms='),
    )
  })
})
