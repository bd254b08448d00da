import { describe, expect, test } from 'vitest'
import type { Match } from './descriptor-tree.ts'
import { type ConfigOptions, defaultConfigOptions, parseConfig } from './rls-config.ts'

/** The sample of the reference's own tests, with nested patterns behind it. */
const basic = `
domain: test-domain
descriptors:
  - key: key1
    value: value1
    descriptors:
      - key: subkey1
        rate_limit: { unit: second, requests_per_unit: 5 }
      - key: subkey1
        value: subvalue1
        rate_limit: { unit: second, requests_per_unit: 10 }
  - key: key2
    rate_limit: { unit: minute, requests_per_unit: 20 }
  - key: key2
    value: value2
    rate_limit: { unit: minute, requests_per_unit: 30 }
  - key: key2
    value: value3
  - key: key3
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: key4
    rate_limit: { unit: day, requests_per_unit: 1, name: key4_rate_limit }
  - key: key5
    value: value5
    rate_limit: { unit: day, requests_per_unit: 15 }
    descriptors:
      - key: subkey5
        value: subvalue5
        rate_limit: { unit: day, requests_per_unit: 25 }
  - key: key6
    rate_limit: { unlimited: true }
  - key: path
    value: /a/*/z
    rate_limit: { unit: hour, requests_per_unit: 41 }
  - key: path
    value: /a/*
    descriptors:
      - key: method
        value: P*T
        rate_limit: { unit: hour, requests_per_unit: 42 }
  - key: path
    value: "*b*c*"
    rate_limit: { unit: hour, requests_per_unit: 43 }
  - key: path
    rate_limit: { unit: hour, requests_per_unit: 44 }
    descriptors:
      - key: method
        rate_limit: { unit: hour, requests_per_unit: 45 }
  - key: head*
    rate_limit: { unit: hour, requests_per_unit: 46 }
  - key: header
    rate_limit: { unit: hour, requests_per_unit: 47 }
`

type Case = readonly [entries: string, units: number | undefined, fullKey?: string]

const cases: readonly Case[] = [
  ['', undefined],
  ['key1=something', undefined],
  ['key1=value1', undefined],
  ['key2=value2,subkey=subvalue', undefined],
  ['key5=value5,subkey5=subvalue', undefined],
  ['key5=value5,subkey5=subvalue5', 25],
  ['key5=value5', 15],
  ['key1=value1,subkey1=something', 5, 'test-domain.key1_value1.subkey1'],
  ['key1=value1,subkey1=subvalue1', 10, 'test-domain.key1_value1.subkey1_subvalue1'],
  ['key2=something', 20, 'test-domain.key2'],
  ['key2=', 20],
  ['key2=value2', 30],
  ['key2=value3', undefined],
  ['key3=foo', 1],
  ['key4=foo', 1],
  ['key6=foo', 0],
  ['path=/a/b/z', 41, 'test-domain.path_/a/*/z'],
  ['path=/a//z', 41],
  // The first pattern that fits decides, and there is no way back from it.
  ['path=/a/b/y', undefined],
  ['path=/a/b/y,method=PUT', 42, 'test-domain.path_/a/*.method_P*T'],
  ['path=/a/b/y,method=GET', undefined],
  ['path=/x/b/c', 43],
  ['path=bc', 43],
  ['path=cb', 44],
  ['path=,method=GET', 45],
  // A star in a key stands for key and value, and goes before the key alone.
  ['header=x', 46],
  ['heads=', 46],
  ['hea=d', undefined],
]

describe('a descriptor finds', () => {
  const root = parseConfig([{ name: 'basic.yaml', text: basic }]).domains.get('test-domain')

  const rows = cases.map(([text, units, fullKey]) => ({ text, units, fullKey }))
  test.each(rows)('with $text a limit of $units', ({ text, units, fullKey }) => {
    const match = root?.find(entriesOf(text))
    expect(match?.rule.requestsPerUnit).toBe(units)
    if (fullKey !== undefined) expect(match?.path.at(-1)?.fullKey).toBe(fullKey)
  })

  test('the same answer again, not a copy', () => {
    const entries = entriesOf('key2=value2')
    expect(root?.find(entries)).toBe(root?.find(entries))
  })

  test('no rule by a value that only looks like another key', () => {
    const text = 'domain: test-domain\ndescriptors:\n  - key: a_b\n    rate_limit: { unit: day }'
    expect(find(text, 'a=b')).toBeUndefined()
    expect(find(text, 'a_b=c')).toBeDefined()
  })

  test('rules of all files of a merged domain', () => {
    const files = [1, 2].map((number) => ({
      name: `${number}.yaml`,
      text: `domain: test-domain
descriptors:
  - key: key${number}
    value: value${number}
    rate_limit: { unit: minute, requests_per_unit: ${number}0 }`,
    }))
    const merged = parseConfig(files, { ...defaultConfigOptions, mergesDomains: true })
    const units = ['key1=value1', 'key2=value2'].map(
      (text) => merged.domains.get('test-domain')?.find(entriesOf(text))?.rule.requestsPerUnit,
    )
    expect(units).toEqual([10, 20])
  })
})

describe('beyond the reference, a descriptor finds', () => {
  const networks = `
domain: test-domain
descriptors:
  - key: remote_address
    value_cidr: [10.0.0.0/8, 2001:db8::/32, 192.0.2.7]
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 2 }
`
  test.each([
    ['10.1.2.3', 1],
    ['11.1.2.3', 2],
    ['192.0.2.7', 1],
    ['192.0.2.8', 2],
    ['2001:db8:1::5', 1],
    ['2001:db9::5', 2],
    ['::ffff:10.1.2.3', 1],
    ['10.1.0.0/16', 1],
    ['10.1.2.3.4', 2],
    ['x'.repeat(5_000), 2],
  ])('a network by the address %s', (address, units) => {
    expect(find(networks, `remote_address=${address}`)?.rule.requestsPerUnit).toBe(units)
  })

  test('networks that share one counter', () => {
    const [node] = find(networks, 'remote_address=10.1.2.3')?.path ?? []
    expect(node?.sharedPattern).toBe('remote_address_10.0.0.0/8,2001:db8::/32,192.0.2.7')
  })

  test('a prefix in which a star is a star', () => {
    const text = limited('key: path\n    value_prefix: /a*')
    expect(find(text, 'path=/a*b')).toBeDefined()
    expect(find(text, 'path=/ab')).toBeUndefined()
  })

  test('keys by their beginning, after all others', () => {
    const text = `${limited('key_prefix: x-')}\n  - key: x-own\n    rate_limit: { unit: day }`
    expect(find(text, 'x-other=1')?.rule.unit.name).toBe('SECOND')
    expect(find(text, 'x-own=1')?.rule.unit.name).toBe('DAY')
    expect(find(text, 'y=1')).toBeUndefined()
  })

  test('limits of single values, with the rest as in the common one', () => {
    const text = `
domain: test-domain
descriptors:
  - key: plan
    rate_limit: { per: 10s, requests_per_unit: 5, algorithm: token_bucket, burst: 20, name: plan }
    per_value: { premium: 50, "5": { requests_per_unit: 7, unit: hour, burst: 70 }, 6: 60 }
    descriptors:
      - key: user
        rate_limit: { unit: second, requests_per_unit: 3 }
`
    const limitOf = (entries: string) => find(text, entries)?.rule.counted?.compiled.base
    const bucket = { algorithm: 'tokenBucket', perMs: 10_000 }
    expect(limitOf('plan=free')).toMatchObject({ ...bucket, limit: 5, burst: 20 })
    expect(limitOf('plan=premium')).toMatchObject({ ...bucket, limit: 50, burst: 20 })
    expect(limitOf('plan=5')).toMatchObject({ limit: 7, burst: 70, perMs: 3_600_000 })
    expect(limitOf('plan=6')).toMatchObject({ limit: 60 })
    expect(find(text, 'plan=premium')?.rule.limitName).toBe('plan')
    expect(limitOf('plan=premium,user=ada')).toMatchObject({ limit: 3, per: 1_000 })
  })
})

describe('a rule', () => {
  const windows: readonly (readonly [fields: string, name: string, limit: object])[] = [
    ['unit: second', 'rls.1s', { algorithm: 'fixedWindow', per: 1_000 }],
    ['unit: week', 'rls.604800s', { per: 604_800_000 }],
    ['unit: month', 'rls.2592000s', { per: 2_592_000_000 }],
    ['unit: year', 'rls.31536000s', { per: 31_536_000_000 }],
    ['per: 250ms', 'rls.250ms', { per: 250 }],
    ['per: 1m, algorithm: sliding_window', 'rls.60s', { algorithm: 'slidingWindow' }],
    ['per: 1m, algorithm: sliding_log', 'rls.60s', { algorithm: 'slidingLog', perMs: 60_000 }],
    ['unit: minute, algorithm: token_bucket', 'rls.60s', { algorithm: 'tokenBucket', burst: 9 }],
    [
      'unit: month, calendar: true, time_zone: Europe/Berlin',
      'rls.month',
      { per: { unit: 'month', timeZone: 'Europe/Berlin' } },
    ],
    ['unit: day, on_store_error: local', 'rls.86400s', { onStoreError: 'local' }],
    ['unit: day, accuracy: exact', 'rls.86400s', { accuracy: 'exact', onStoreError: 'closed' }],
  ]
  test.each(windows)('with %s counts under %s', (fields, name, limit) => {
    const text = limited('key: a').replace('unit: second', `${fields}, requests_per_unit: 9`)
    const compiled = find(text, 'a=')?.rule.counted?.compiled
    expect(compiled?.counterName).toBe(name)
    expect(compiled?.base).toMatchObject({ limit: 9, ...limit })
  })

  test('of a month is one of the calendar where that is asked for', () => {
    const text = limited('key: a').replace('second', 'month')
    const found = find(text, 'a=', { ...defaultConfigOptions, calendarMonths: true })
    expect(found?.rule.counted?.compiled.base).toMatchObject({
      per: { unit: 'month', timeZone: 'UTC' },
    })
  })

  test('tells the unit of a period that is one, and none of others', () => {
    const unitOf = (per: string) =>
      find(limited('key: a').replace('unit: second', `per: ${per}`), 'a=')?.rule.unit.name
    expect([unitOf('60s'), unitOf('10s')]).toEqual(['MINUTE', 'UNKNOWN'])
  })
})

function find(text: string, entries: string, options?: ConfigOptions): Match | undefined {
  const config = parseConfig([{ name: 'file.yaml', text }], options)
  return config.domains.get('test-domain')?.find(entriesOf(entries))
}

function entriesOf(text: string) {
  return text
    .split(',')
    .filter((entry) => entry !== '')
    .map((entry) => {
      const [key = '', ...rest] = entry.split('=')
      return { key, value: rest.join('=') }
    })
}

function limited(descriptor: string): string {
  return `domain: test-domain
descriptors:
  - ${descriptor}
    rate_limit: { unit: second }`
}
