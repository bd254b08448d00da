import { describe, expect, test } from 'vitest'
import { readPolicy } from '../read-policy.ts'
import { regionBounds } from './region-bounds.ts'

const link = 'link: { listen: { port: 1 }, cert: a, key: b, ca: c }'
const list =
  'list: { eu: { endpoint: "eu:1" }, us: { endpoint: "us:1" }, ap: { endpoint: "ap:1" } }'
const store = 'store: { mode: standalone, addresses: ["localhost:1"] }'
const sections = `region: eu\n${store}\nregions: { ${list}, ${link} }\n`

function read(text: string) {
  return readPolicy(text, 'test.yaml')
}

function messages(text: string): string {
  const result = read(text)
  return result.ok ? '' : result.problems.map(({ message }) => message).join('\n')
}

const limit = (fields: string) =>
  `limits: [{ name: a, key: everyone, limit: 300, per: 1m, ${fields} }]\n`

describe('a limit of several regions', () => {
  test.each([
    'regions: { mode: partition }',
    'regions: { mode: home, reserve: 0, onCutOff: local }',
    'regions: { mode: escrow, reserve: 12.5 }',
    'regions: { mode: home }, algorithm: slidingLog',
    'regions: { mode: shared }',
    'regions: { mode: shared, blind: 3 }, algorithm: slidingWindow',
  ])('is valid with %s', (fields) => expect(messages(sections + limit(fields))).toBe(''))

  test.each([
    ['regions: { mode: gossip }', 'limits[0].regions.mode: "gossip" is not allowed'],
    ['regions: { mode: partition, reserve: 10 }', 'reserve: 10 is not allowed; allowed: only with'],
    ['regions: { mode: home, reserve: 60 }', 'limits[0].regions.reserve: 60 is not allowed'],
    [
      'regions: { mode: escrow }, algorithm: slidingLog',
      'limits[0].regions.mode: "escrow" is not allowed; allowed: with slidingLog: home',
    ],
    [
      'regions: { mode: home }, accuracy: synced',
      'limits[0].accuracy: "synced" is not allowed; allowed: with home: exact or leased',
    ],
    [
      'regions: { mode: shared, onCutOff: closed }',
      'onCutOff: "closed" is not allowed; allowed: o',
    ],
    ['regions: { mode: shared, blind: 4 }', 'blind: 4 is not allowed; allowed: from 1 to 3, the'],
    ['regions: { mode: home, blind: 2 }', 'blind: 2 is not allowed; allowed: only with shared'],
    [
      'regions: { mode: shared }, algorithm: slidingLog',
      'with slidingLog: home, because its units cannot be exchanged as counts',
    ],
    [
      'regions: { mode: shared }, accuracy: synced',
      'limits[0].accuracy: "synced" is not allowed; allowed: with shared: exact',
    ],
    ['regions: { mode: shared }, burst: 2', 'home, because the share of eu is less than one of'],
    [
      'regions: { mode: shared }, burst: 10000000000000',
      'home, because the parts of its units are too many to be counted',
    ],
    [
      'regions: { mode: partition }, burst: 2',
      'limits[0].regions.mode: "partition" is not allowed; allowed: home, because the share of eu',
    ],
  ])('is refused with %s', (fields, message) => {
    expect(messages(sections + limit(fields))).toContain(message)
  })

  test('needs the section, and home and escrow need the link', () => {
    expect(messages(limit('regions: { mode: partition }'))).toContain(
      'limits[0].regions: is not allowed; allowed: only with a section regions',
    )
    const unlinked = `region: eu\n${store}\nregions: { ${list} }\n`
    expect(messages(unlinked + limit('regions: { mode: partition }'))).toBe('')
    expect(messages(unlinked + limit('regions: { mode: home }'))).toContain(
      'only with regions.link',
    )
  })
})

describe('the section regions', () => {
  test('needs the region of the node, and a store that its nodes share', () => {
    const other = sections.replace('region: eu', 'region: sa')
    expect(messages(`${other}limits: []`)).toContain('region: "sa" is not allowed; allowed: this')
    const memory = sections.replace(store, '')
    expect(messages(`${memory}limits: []`)).toContain('store.mode: "memory" is not allowed')
  })

  test('has at least two regions, and a deadline that a round trip fits into', () => {
    const one = sections.replace(list, 'list: { eu: { endpoint: "eu:1" } }')
    expect(messages(`${one}limits: []`)).toContain('2 to 16 regions by name')
    const short = sections.replace('ca: c', 'ca: c, deadline: 15ms')
    expect(messages(`${short}limits: []`)).toContain('regions.link.deadline: "15ms" is not allowed')
  })
})

describe('the guarantees of a mode', () => {
  test.each([
    ['regions: { mode: partition }', 0, 200, 0],
    ['regions: { mode: shared }', 200, 200, 0],
    ['regions: { mode: shared, blind: 3 }', 600, 0, 0],
    ['regions: { mode: home }', 0, 20, 250],
    ['regions: { mode: home, reserve: 0, onCutOff: local }', 200, 0, 250],
    ['regions: { mode: home, onCutOff: open }', Infinity, 20, 250],
    ['regions: { mode: escrow }', 0, 20, 250],
  ])('%s', (fields, overage, underUse, addedMs) => {
    const result = read(sections + limit(fields))
    expect(result.ok && regionBounds(result.document)).toMatchObject([
      { overage, underUse, addedMs },
    ])
  })

  test('come with warnings if another mode fits better', () => {
    const warned = (text: string) => {
      const result = read(text)
      return result.ok ? regionBounds(result.document).flatMap(({ warnings }) => warnings) : []
    }
    const small = limit('regions: { mode: escrow }').replace('300', '40').replace('1m', '1s')
    expect(warned(sections + small)).toEqual([
      expect.stringContaining('fewer than 48 units, and acts as home'),
      expect.stringContaining('home fits better'),
    ])
    const short = limit('regions: { mode: shared }').replace('1m', '5s')
    expect(warned(sections + short)).toEqual([
      expect.stringContaining('90 % of the limit after 2.2 s, which is a large part of the period'),
    ])
    const envoy = 'rateLimitService: { listen: { port: 1 } }\n'
    expect(warned(sections + envoy + limit('regions: { mode: home }'))).toEqual([
      expect.stringContaining('Envoy waits 20 ms'),
    ])
  })
})
