import { expect, test } from 'vitest'
import type { Entry } from '../key-value.ts'
import { blockKey, overrideKey, SWITCH_KEY } from './entries.ts'
import { LiveEntryReader } from './read-live-entries.ts'

const origin = { by: 'ann', at: '2026-01-01T00:00:00Z', why: 'x', expires: null }

function entry(key: string, value: unknown, revision = 1n): Entry {
  return { key, value: typeof value === 'string' ? value : JSON.stringify(value), revision }
}

function override(at: number, more: object = {}, revision = 1n): Entry {
  const value = { limit: 'api', key: [`k${at}`], set: { limit: 5, per: '1m' }, ...origin, ...more }
  return entry(overrideKey('api', [`k${at}`]), value, revision)
}

function read(entries: readonly Entry[], reader = new LiveEntryReader()) {
  return reader.read({ entries, revision: 1n })
}

test('overrides, blocks and the switch become rules of the engine', () => {
  const target = { kind: 'cidr', value: '10.0.0.0/8' } as const
  const result = read([
    override(1, { expires: '2026-01-02T00:00:00Z' }),
    entry(blockKey(target), { ...target, answer: 429, ...origin }),
    entry(SWITCH_KEY, { limits: 'shadow', blocks: 'on', ...origin }),
    entry('live/current', { version: 1 }),
  ])
  expect(result).toMatchObject({
    overrides: [
      { limit: 'api', key: ['k1'], set: { limit: 5, per: 60_000 }, expiresAt: 1_767_312_000_000 },
    ],
    blocks: [{ kind: 'cidr', value: '10.0.0.0/8', answer: 429, expiresAt: Infinity }],
    switch: { limits: 'shadow', blocks: 'on' },
    problems: [],
  })
})

test('paths reveal no key', () => {
  expect(overrideKey('a/b', ['secret-customer'])).toMatch(/^live\/overrides\/a%2Fb\/[\w-]{22}$/)
  expect(blockKey({ kind: 'user', value: 'mallory' })).toMatch(/^live\/blocks\/user\/[\w-]{22}$/)
})

test('a problem has too little of the path to guess a key from', () => {
  const path = blockKey({ kind: 'ip', value: '192.0.2.1' })
  const { problems } = read([entry(path, 'not json')])
  expect(problems).toEqual([`${path.slice(0, -20)}…: the text is not allowed; it is left out`])
})

test.for<[string, unknown]>([
  ['text', 'not json'],
  ['a wrong kind', { ...origin, kind: 'planet', value: 'x', answer: 403 }],
  ['an unknown field', { ...origin, kind: 'user', value: 'x', answer: 403, extra: 1 }],
  ['a control character', { ...origin, kind: 'user', value: 'a\u001b', answer: 403 }],
  ['an author with a line break', { ...origin, by: 'a\nb', kind: 'user', value: 'x', answer: 403 }],
  ['a value that is not an address', { ...origin, kind: 'ip', value: 'x', answer: 403 }],
  ['too many bytes', `${JSON.stringify({ x: 'x'.repeat(5_000) })}`],
  ['a list', []],
  ['null', null],
])('an entry with %s is left out alone, with a problem that does not repeat it', ([, value]) => {
  const result = read([override(1), entry('live/blocks/user/x', value)])
  expect(result.overrides).toHaveLength(1)
  expect(result.blocks).toEqual([])
  expect(result.problems).toEqual([expect.stringMatching(/^live\/blocks\/user\/x: .*left out$/)])
})

test('the oldest overrides beyond the maximum are left out', () => {
  const newest = { at: '2026-02-01T00:00:00Z' }
  const entries = Array.from({ length: 50_001 }, (_, at) => override(at, at > 0 ? newest : {}))
  const { overrides, problems } = read(entries)
  expect(overrides).toHaveLength(50_000)
  expect(overrides.some(({ key }) => key[0] === 'k0')).toBe(false)
  expect(problems).toEqual(['50001 overrides; allowed: 50000, so the oldest are left out'])
})

test('entries that did not change are the same objects, and others are parsed again', () => {
  const reader = new LiveEntryReader()
  const first = read([override(1), override(2)], reader)
  const second = read([override(1), override(2, { set: { limit: 6 } }, 2n)], reader)
  expect(second.overrides[0]).toBe(first.overrides[0])
  expect(second.overrides[1]).toMatchObject({ set: { limit: 6 } })
})
