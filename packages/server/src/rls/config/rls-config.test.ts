import { describe, expect, test } from 'vitest'
import { RlsConfigError } from './config-error.ts'
import type { Entry } from './descriptor-tree.ts'
import { type ConfigOptions, defaultConfigOptions, parseConfig } from './rls-config.ts'

/** The messages of the reference, each with the least that brings it about. */
const refused: readonly (readonly [fact: string, text: string, message: string])[] = [
  ['no domain', 'descriptors:', 'config file cannot have empty domain'],
  ['an empty file', '', 'config file cannot have empty domain'],
  ['a descriptor without a key', levels('value: value1'), 'descriptor has empty key'],
  [
    'the same key and value twice',
    levels('key: key1\n    value: value1', 'key: key1\n    value: value1'),
    `duplicate descriptor composite key 'test-domain.key1_value1'`,
  ],
  [
    'keys and values that are the same once joined',
    levels('key: a_b', 'key: a\n    value: b'),
    `duplicate descriptor composite key 'test-domain.a_b'`,
  ],
  ['an unknown unit', limit('unit: foo'), `invalid rate limit unit 'foo'`],
  ['no unit', limit('requests_per_unit: 5'), `invalid rate limit unit ''`],
  ['the unit that means none', limit('unit: unknown'), `invalid rate limit unit 'unknown'`],
  [
    'a limit that replaces itself',
    limit('unit: day, name: self, replaces: [{ name: self }]'),
    'replaces should not contain name of same descriptor',
  ],
  [
    'a replaced limit without a name',
    limit('unit: day, replaces: [{ name: }]'),
    'should not have an empty replaces entry',
  ],
  [
    'a quote that does not end',
    `'''\n`,
    'error loading config file: yaml: line 2: found unexpected end of stream',
  ],
  ['a misspelt key', levels('key: a\n    ratelimit: {}'), `config error, unknown key 'ratelimit'`],
  [
    'a misspelt key deeper down',
    limit('requestsperunit: 5'),
    `config error, unknown key 'requestsperunit'`,
  ],
  ['a key that is a number', '0.25: x', 'config error, key is not of type string: 0.25'],
  ['a key that is a flag', 'yes: x', 'config error, key is not of type string: true'],
  [
    'a list of texts',
    'descriptors: [a, b, c]',
    'config error, yaml file contains list of type other than map: a',
  ],
  [
    'a unit for what is unlimited',
    limit('unlimited: true, unit: day'),
    'should not specify rate limit unit when unlimited',
  ],
  [
    'a threshold shared by one value',
    levels('key: key1\n    value: value1\n    share_threshold: true'),
    `share_threshold can only be used with wildcard values (containing '*'), ` +
      `but found key 'key1_value1'`,
  ],
  ['a fraction', limit('unit: day, requests_per_unit: 1.5'), 'error checking config'],
  [
    'a number with digits that are not octal',
    limit('unit: day, name: 08'),
    'error checking config',
  ],
  [
    'a negative number',
    limit('unit: day, requests_per_unit: -1'),
    unmarshal('line 4: cannot unmarshal !!int `-1` into uint32'),
  ],
  [
    'a number of more than 32 bits',
    limit('unit: day, requests_per_unit: 4294967296'),
    unmarshal('line 4: cannot unmarshal !!int `4294967296` into uint32'),
  ],
  [
    'a text for a flag',
    levels('key: a\n    shadow_mode: "yes"'),
    unmarshal('line 4: cannot unmarshal !!str `yes` into bool'),
  ],
  [
    'a long text for a limit',
    levels('key: a\n    rate_limit: abcdefghijklmn'),
    unmarshal('line 4: cannot unmarshal !!str `abcdefg...` into config.YamlRateLimit'),
  ],
  [
    'a list as a file',
    '- a',
    unmarshal('line 1: cannot unmarshal !!seq into map[interface {}]interface {}'),
  ],
  [
    'metadata that is a text',
    levels('key: a\n    metadata: x'),
    'error parsing metadata: it is not a map',
  ],
]

/** Words of our own, for what the reference does not have. */
const refusedHere: readonly (readonly [fact: string, text: string, message: string])[] = [
  ['unit and per', limit('unit: day, per: 5s'), 'either unit or per, not both'],
  [
    'a period without a unit',
    limit('per: 5'),
    `invalid per '5': a time such as 250ms, 10s, 5m, 1h or 7d`,
  ],
  [
    'an unknown algorithm',
    limit('unit: day, algorithm: leaky'),
    `invalid algorithm 'leaky': one of fixed_window, sliding_window, token_bucket, sliding_log`,
  ],
  [
    'a burst of a window',
    limit('unit: day, burst: 5'),
    'burst is only for algorithm: token_bucket',
  ],
  [
    'a calendar hour',
    limit('unit: hour, calendar: true'),
    `calendar: true is for day, week and month, not 'hour'`,
  ],
  [
    'a failure mode that there is not',
    limit('unit: day, on_store_error: maybe'),
    `invalid on_store_error 'maybe': one of error, open, closed, local`,
  ],
  [
    'a network that is none',
    levels('key: a\n    value_cidr: 10.0.0.0/33'),
    `invalid value_cidr '10.0.0.0/33': networks such as 10.0.0.0/8`,
  ],
  [
    'a value and a prefix',
    levels('key: a\n    value: b\n    value_prefix: c'),
    `'a' has more than one of value, value_prefix, value_cidr`,
  ],
  [
    'values of a value',
    levels('key: a\n    value: b\n    per_value: { c: { unit: day } }'),
    'per_value is for a descriptor with a key and no value',
  ],
]

describe('a configuration is refused for', () => {
  test.each([...refused, ...refusedHere])('%s', (_, text, message) => {
    const withDomain = /^(domain|descriptors:$|- |'|$)/.test(text) ? text : `domain: d\n${text}`
    expect(() => parseConfig([{ name: 'file.yaml', text: withDomain }])).toThrow(
      new RlsConfigError('file.yaml', message),
    )
  })

  test('a domain that another file has', () => {
    const files = ['a.yaml', 'b.yaml'].map((name) => ({ name, text: 'domain: test-domain' }))
    expect(() => parseConfig(files)).toThrow(
      `b.yaml: duplicate domain 'test-domain' in config file`,
    )
  })

  test('the same descriptor in two files of a merged domain', () => {
    const text = limit('unit: day, requests_per_unit: 1')
    const files = ['a.yaml', 'b.yaml'].map((name) => ({ name, text }))
    const options = { ...defaultConfigOptions, mergesDomains: true }
    expect(() => parseConfig(files, options)).toThrow(
      `b.yaml: duplicate descriptor composite key 'test-domain.key1'`,
    )
  })

  test('aliases that make more of it than is allowed', () => {
    const steps = Array.from({ length: 9 }, (_, at) => {
      const inner = at === 0 ? '[{ key: a }]' : `[${`{ descriptors: *a${at - 1} }, `.repeat(9)}]`
      return `x${at}: &a${at} ${inner}`
    })
    const text = `domain: d\nmetadata:\n  ${steps.join('\n  ')}`
    expect(() => parseConfig([{ name: 'bomb', text }])).toThrow('excessive aliasing')
  })

  test('an alias of itself', () => {
    const text = 'domain: d\ndescriptors: &a\n  - key: b\n    descriptors: *a'
    expect(() => parseConfig([{ name: 'bomb', text }])).toThrow(`anchor 'a' value contains itself`)
  })

  test('nesting without end', () => {
    for (const text of ['['.repeat(100_000), '- '.repeat(100_000), '{a: '.repeat(10_000)]) {
      expect(() => parseConfig([{ name: 'deep', text }])).toThrow('nested too deep')
    }
  })

  test('more than a megabyte', () => {
    const text = `domain: d\n${'#'.repeat(1_048_576)}`
    expect(() => parseConfig([{ name: 'large', text }])).toThrow('at most 1048576 are allowed')
  })
})

describe('a configuration is taken with', () => {
  const accepted: readonly (readonly [fact: string, text: string])[] = [
    ['a unit in any letter case', limit('unit: MiNuTe')],
    ['a limit that blocks', limit('unit: week, requests_per_unit: 0')],
    ['the largest limit', limit('unit: year, requests_per_unit: 4294967295')],
    ['a replaced name that does not exist', limit('unit: day, replaces: [{ name: other }]')],
    ['unlimited and a number', limit('unlimited: true, requests_per_unit: 5')],
    ['any metadata', levels('key: a\n    metadata: { x: { 1.5: [1.5, ~], y: no } }')],
    ['a known key where it means nothing', levels('key: a\n    unit: day')],
    ['a second document, which does not count', 'domain: d\n---\ndomain: [\n'],
    ['a key that stands twice', 'domain: d\ndomain: e'],
    ['words of YAML 1.1', levels('key: a\n    shadow_mode: on\n    quota_mode: N')],
  ]
  test.each(accepted)('%s', (_, text) => {
    expect(() => parseConfig([{ name: 'file.yaml', text }])).not.toThrow()
  })

  test('names that mean something to JavaScript, as plain names', () => {
    const text = levels('key: __proto__\n    value: constructor\n    rate_limit: { unit: day }')
    expect(find(text, [['__proto__', 'constructor']])?.unit.name).toBe('DAY')
    expect(find(text, [['constructor', 'prototype']])).toBeUndefined()
  })

  test('numbers as they were written', () => {
    const text = levels('key: 007\n    value: 1_0\n    rate_limit: { unit: day }')
    expect(find(text, [['007', '1_0']])).toBeDefined()
    expect(find(text, [['7', '10']])).toBeUndefined()
  })

  test.each([
    ['0x10', 16],
    ['010', 8],
    ['0b11', 3],
    ['1_000', 1_000],
  ])('the number %s as Go reads it', (number, units) => {
    const text = limit(`unit: day, requests_per_unit: ${number}`)
    expect(find(text, [['key1', '']])?.requestsPerUnit).toBe(units)
  })

  test('anchors and merged maps', () => {
    const text = `domain: test-domain
descriptors:
  - &first
    key: a
    rate_limit: &limit { unit: day, requests_per_unit: 7 }
  - key: b
    rate_limit: *limit
  - <<: *first
    key: c
`
    for (const key of ['a', 'b', 'c']) expect(find(text, [[key, '']])?.requestsPerUnit).toBe(7)
  })
})

function find(
  text: string,
  entries: readonly (readonly [key: string, value: string])[],
  options: ConfigOptions = defaultConfigOptions,
) {
  const config = parseConfig([{ name: 'file.yaml', text }], options)
  const list: Entry[] = entries.map(([key, value]) => ({ key, value }))
  return config.domains.get('test-domain')?.find(list)?.rule
}

function limit(fields: string): string {
  return levels(`key: key1\n    rate_limit: { ${fields} }`)
}

function levels(...descriptors: readonly string[]): string {
  return ['domain: test-domain\ndescriptors:', ...descriptors].join('\n  - ')
}

function unmarshal(line: string): string {
  return `error loading config file: yaml: unmarshal errors:\n  ${line}`
}
