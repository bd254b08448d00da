/**
 * Ids that try to collide, or to leave their slot in a cluster: with delimiters, braces, line ends,
 * NULs, or 64 KB long. Different ids always have different counters.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createEnforcer } from '../../packages/server/src/limits/enforcer.ts'
import { factsOf, policyOf } from '../../packages/server/src/limits/enforcer-contract.ts'
import { planKey, readKey } from '../../packages/server/src/limits/key-plan.ts'
import { createStore, type OpenStore } from '../../packages/server/src/stores/create-store.ts'
import { redisKey } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { type RedisCluster, startCluster } from '../support/servers/cluster.ts'
import { until } from '../support/servers/until.ts'

/** Deterministic, so that a failure can be repeated. */
function randomNumbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Delimiters of keys here and elsewhere, and terminators of strings in some language. */
const pieces = [
  ...[
    'a',
    'b',
    'ab',
    '1',
    '2',
    '3',
    ':',
    '::',
    '|',
    '/',
    ',',
    ' ',
    '{',
    '}',
    '{a}',
    '{}',
    '~',
    '~h:',
  ],
  ...[
    '~1:',
    '\r\n',
    '\n',
    '\0',
    '\x1b',
    '"',
    '\\',
    '%00',
    'é',
    '\ud800',
    '\udc00',
    '\ufeff',
    '1:a',
  ],
]

const random = randomNumbers(20_261_116)

const hostile = () => {
  const count = 1 + random(5)
  let text = ''
  for (let at = 0; at < count; at += 1) text += pieces[random(pieces.length)]
  return text
}

const PAIRS = 100_000

describe('keys of hostile ids', () => {
  const settings = { region: 'eu', ipv6Prefix: 64 }
  const plan = planKey(
    {
      key: [{ header: 'x-a' }, { header: 'x-b' }],
      otherwise: { key: { header: 'x-a' }, otherwise: { header: 'x-b' } },
    } as never,
    settings,
  )

  const keyOf = (headers: Readonly<Record<string, string>>) =>
    readKey(plan, factsOf({ headers }), '', '') ?? ''

  test(`of ${PAIRS} pairs, no two share a key`, () => {
    const owners = new Map<string, string>()
    const taken = new Map<string, string>()
    const collisions: string[] = []
    for (let at = 0; at < PAIRS; at += 1) {
      const pair = [hostile(), hostile()]
      const kind = random(4)
      const headers =
        kind === 0
          ? { 'x-a': pair[0] ?? '' }
          : kind === 1
            ? { 'x-b': pair[1] ?? '' }
            : {
                'x-a': pair[0] ?? '',
                'x-b': pair[1] ?? '',
              }
      const owner = JSON.stringify(headers)
      const key = keyOf(headers)
      const inRedis = redisKey('tg', `tokenBucket\0limit\0${key}`)
      for (const [map, text] of [
        [owners, key],
        [taken, inRedis],
      ] as const) {
        const known = map.get(text)
        if (known !== undefined && known !== owner) collisions.push(`${known} and ${owner}`)
        map.set(text, owner)
      }
    }
    expect(collisions).toEqual([])
    expect(owners.size).toBeGreaterThan(PAIRS / 2)
    expect(taken.size).toBe(owners.size)
  })

  test.each([
    [
      ['a:b', 'c'],
      ['a', 'b:c'],
    ],
    [
      ['a', ''],
      ['', 'a'],
    ],
    [
      ['1:a', '1:b'],
      ['1', ':a1:b'],
    ],
    [
      ['ab', 'c'],
      ['a', 'bc'],
    ],
    [
      ['a\0b', 'c'],
      ['a', 'b\0c'],
    ],
    [
      ['{a}', 'b'],
      ['a', '{b}'],
    ],
    [
      ['x'.repeat(128), 'y'],
      ['x'.repeat(129), 'y'],
    ],
    [
      ['x'.repeat(65_536), 'y'],
      [`${'x'.repeat(65_535)}z`, 'y'],
    ],
    [
      ['\ud800', 'x'],
      ['\ud801', 'x'],
    ],
    [
      ['é', 'x'],
      ['e\u0301', 'x'],
    ],
  ])('%j and %j are two', ([a = '', b = ''], [c = '', d = '']) => {
    expect(keyOf({ 'x-a': a, 'x-b': b })).not.toBe(keyOf({ 'x-a': c, 'x-b': d }))
  })

  test('are short however long the ids are', () => {
    const long = keyOf({ 'x-a': '{'.repeat(65_536), 'x-b': '\0'.repeat(65_536) })
    expect(long.length).toBeLessThanOrEqual(512)
    expect(redisKey('tg', long).length).toBe(14)
  })
})

describe('on a real cluster', () => {
  const AT_ONCE = 100

  let cluster: RedisCluster
  let opened: OpenStore
  const misconfigured: string[] = []

  beforeAll(async () => {
    // Longer than a machine stalls.
    cluster = await startCluster({ replicasPerMaster: 0, nodeTimeoutMs: 15_000 })
    const addresses = cluster.addresses.map(({ host, port }) => `${host}:${port}`)
    opened = createStore(
      { mode: 'cluster', addresses },
      {
        deadlineMs: 30_000,
        observer: (event) => {
          if (event.type === 'misconfigured') misconfigured.push(event.error.message)
        },
      },
    )
    await opened.ready()
    await until('it is connected', () => opened.isConnected())
  })

  afterAll(async () => {
    await opened?.close()
    await cluster?.stop()
  })

  const policy = policyOf(`
limits:
  - { name: everyone, key: everyone, limit: 1000000, per: 1h }
  - { name: tenant, key: { header: x-tenant }, otherwise: deny, limit: 1000, per: 1h }
  - name: id
    key: [{ header: x-tenant }, { header: x-id }]
    otherwise: deny
    limit: 2
    per: 1h
    within: tenant`)

  test('hostile ids are charged in one step with their tenant, in one slot', async () => {
    const enforcer = createEnforcer(policy, { store: opened.store })
    const ids = new Set(Array.from({ length: 1_500 }, hostile))
    ids.add('{'.repeat(65_536)).add('}{'.repeat(32_768))
    const judge = (id: string) =>
      enforcer.evaluate(factsOf({ headers: { 'x-tenant': `${id}}{`, 'x-id': id } }))
    // All at once would block the event loop for so long that sockets time out.
    const judgeAll = async () => {
      const verdicts: Awaited<ReturnType<typeof judge>>[] = []
      const all = [...ids]
      for (let from = 0; from < all.length; from += AT_ONCE) {
        verdicts.push(...(await Promise.all(all.slice(from, from + AT_ONCE).map(judge))))
      }
      return verdicts
    }
    const first = await judgeAll()
    const second = await judgeAll()
    const third = await judgeAll()
    expect(misconfigured).toEqual([])
    expect(first.filter(({ evaluation }) => evaluation?.decision.degraded)).toEqual([])
    const admitted = [first, second, third].map(
      (verdicts) => verdicts.filter(({ outcome }) => outcome === 'admitted').length,
    )
    expect(admitted).toEqual([ids.size, ids.size, 0])
    expect(new Set(third.map(({ refusedBy }) => refusedBy))).toEqual(new Set(['id']))
    enforcer.close()
  })

  test('their keys spread evenly over the slots', async () => {
    const BINS = 64
    const counts = new Array<number>(BINS).fill(0)
    let total = 0
    for (const master of cluster.masters) {
      const keys = (await master.command('KEYS', '*')) as string[]
      for (const key of keys) {
        const slot = slotOf(key)
        counts[Math.floor((slot * BINS) / 16_384)] =
          (counts[Math.floor((slot * BINS) / 16_384)] ?? 0) + 1
        total += 1
      }
      const [sample = ''] = keys
      expect(await cluster.slotOf(sample)).toBe(slotOf(sample))
    }
    const expected = total / BINS
    const deviation = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
    // The counters of tenants drain within seconds, those of ids do not.
    expect(total).toBeGreaterThanOrEqual(1_500)
    // Chi-square with 63 degrees of freedom exceeds this once in a million times. Keys of one
    // tenant share a slot in pairs, which doubles it.
    expect(deviation).toBeLessThan(2 * 131)
  })
})

/** https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags */
function slotOf(key: string): number {
  const tag = /\{([^}]+)\}/.exec(key)?.[1] ?? key
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
    crc &= 0xffff
  }
  return crc % 16_384
}
