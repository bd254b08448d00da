import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../../test/support/servers/redis.ts'
import { chargeTokenBucketScript } from './scripts.generated.ts'

/** Ten tokens, one per second; each is 1,000 units, and a millisecond drains one. */
const params = ['10', '1000', '1']
const EMPTY = ['a', 'b', 'c', 'd', 'e']

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
})

beforeEach(() => server.command('FLUSHALL'))

afterAll(() => server?.stop())

function charge(keys: readonly string[], ...rest: readonly string[]): Promise<unknown> {
  const args = [String(keys.length), ...keys, ...params, ...rest]
  return server.command('EVAL', chargeTokenBucketScript.text, ...args)
}

async function callsOf(command: string): Promise<number> {
  const stats = String(await server.command('INFO', 'commandstats'))
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}

async function stateOf(key: string): Promise<unknown[]> {
  const lifetimeMs = Number(await server.command('PTTL', key))
  return [await server.command('GET', key), Math.ceil(lifetimeMs / 1_000)]
}

it('creates empty counters by one command each, but for the first', async () => {
  const [gets, sets] = [await callsOf('get'), await callsOf('set')]
  expect(await charge(EMPTY)).toEqual(EMPTY.map(() => 1_000))
  expect([(await callsOf('get')) - gets, (await callsOf('set')) - sets]).toEqual([1, 5])
})

it('writes the same states and lifetimes for them as one by one', async () => {
  const now = String(Date.now())
  await charge(EMPTY, '2', now)
  for (const key of EMPTY) await charge([`alone:${key}`], '2', now)
  for (const key of EMPTY) {
    expect(await stateOf(key)).toEqual([`2${now}`, 2])
    expect(await stateOf(`alone:${key}`)).toEqual([`2${now}`, 2])
  }
})

it('charges counters with a level between them', async () => {
  const now = Date.now()
  await charge(['used'], '4', String(now))
  const reply = await charge(['a', 'used', 'b', 'c', 'used', 'a'], '1', String(now + 1_000))
  expect(reply).toEqual([1_000, 4_000, 1_000, 1_000, 5_000, 2_000])
})

it('denies a full counter behind an empty one, and does not write to it', async () => {
  const now = Date.now()
  await charge(['full'], '10', String(now))
  const before = await stateOf('full')
  expect(await charge(['a', 'full', 'b'], '1', String(now))).toEqual([1_000, -2 - 10_000, 1_000])
  expect(await stateOf('full')).toEqual(before)
})

it('leaves counters that it cannot read, also behind empty ones', async () => {
  await server.command('ZADD', 'holds', '1', 'one')
  await server.command('SET', 'later', '3:9999999999999:0')
  expect(await charge(['a', 'holds', 'b', 'later', 'c'])).toEqual([1_000, -1, 1_000, -1, 1_000])
  expect(await server.command('ZSCORE', 'holds', 'one')).toBe('1')
  expect(await server.command('GET', 'later')).toBe('3:9999999999999:0')
})

it('denies a cost above the burst without a counter', async () => {
  expect(await charge(['a', 'b'], '11')).toEqual([-2, -2])
  expect(await server.command('DBSIZE')).toBe(0)
})
