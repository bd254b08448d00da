import { describe, expect, it, test } from 'vitest'
import { parsePolicy, readPolicy } from './read-policy.ts'

const messages = (text: string) => {
  const result = readPolicy(text, 'tidegate.yaml')
  return result.ok ? [] : result.problems.map(({ message }) => message)
}

const document = (text: string) => {
  const result = readPolicy(text, 'tidegate.yaml')
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join('\n'))
  return result.document
}

describe('a policy', () => {
  it('may be nearly empty', () => {
    const { version, enabled, limits, store, gateway } = document('limits: []')
    expect({ version, enabled, limits, mode: store.mode }).toEqual({
      version: 1,
      enabled: true,
      limits: [],
      mode: 'memory',
    })
    expect(gateway.ipv6Prefix).toBe(64)
  })

  it('becomes values that the code works with', () => {
    const [limit] = document(`
limits:
  - name: per-key
    match: { methods: [POST], path: /v1/**, headers: { X-Kind: bulk, x-tries: 3 } }
    key: [organisation, { header: X-Tenant }]
    otherwise: { key: user, otherwise: ip }
    limit: 100
    per: 5m
    cost: [{ match: { methods: [POST] }, cost: 5 }]
`).limits
    expect(limit).toEqual({
      name: 'per-key',
      match: {
        methods: ['POST'],
        path: ['/v1/**'],
        headers: { 'x-kind': ['bulk'], 'x-tries': ['3'] },
      },
      key: ['organisation', { header: 'x-tenant' }],
      otherwise: { key: 'user', otherwise: 'ip' },
      algorithm: 'tokenBucket',
      limit: 100,
      per: 300_000,
      cost: [{ match: { methods: ['POST'] }, cost: 5 }],
      mode: 'enforce',
      rollout: 100,
    })
  })

  it('that limits nothing has to say so', () => {
    const lack =
      'tidegate.yaml:1:1 limits: is missing; ' +
      'allowed: a list of limits. To limit nothing, write limits: []'
    expect(messages('upstreams: { api: { targets: ["http://127.0.0.1:1"] } }\n')).toEqual([lack])
    expect(messages('enabled: true\n')).toEqual([lack])
    expect(messages('enabled: false\n')).toEqual([])
    expect(messages('limits: []\n')).toEqual([])
    expect(messages('limits: []\n...\n')).toEqual([])
  })

  it('reads the expiry of an override', () => {
    const { overrides } = document(`
limits: [{ name: a, key: everyone, limit: 1, per: 1s }]
overrides: [{ limit: a, key: everyone, set: { limit: 2 }, expires: 2026-12-01T00:00:00Z }]
`)
    expect(overrides).toEqual([
      { limit: 'a', key: ['everyone'], set: { limit: 2 }, expires: Date.UTC(2026, 11, 1) },
    ])
  })

  it('may come as a value', () => {
    expect(parsePolicy({ limits: [{ name: 'a', key: 'ip', limit: 1, per: '1s' }] }).ok).toBe(true)
    expect(parsePolicy({ limit: [] }, 'the environment')).toEqual({
      ok: false,
      problems: [
        {
          file: 'the environment',
          line: 1,
          column: 1,
          path: 'limit',
          message: 'the environment:1:1 limit: is not known; did you mean limits?',
        },
      ],
    })
  })
})

const keys =
  'apiKey, user, organisation, certificate, ip, ip+userAgent, path, method, route, region, ' +
  'tier, everyone, domain, { header: name }, { claim: name }, { descriptor: key }, ' +
  '{ ip: bits of IPv6 } or a list of those'

describe('a mistake in a choice is told with what is allowed and what was meant:', () => {
  const of = (fields: string) => `limits: [{ name: a, limit: 5, per: 1s, ${fields} }]\n`

  test.each([
    [of('key: apikey'), `key: "apikey" is not allowed; allowed: ${keys}; did you mean apiKey?`],
    [of('key: organistion'), `; did you mean organisation?`],
    [of('key: somethingElse'), `key: "somethingElse" is not allowed; allowed: ${keys}`],
    [
      of('key: "header:x-tenant"'),
      `limits[0].key: "header:x-tenant" is not allowed; allowed: ${keys}; ` +
        'did you mean { header: x-tenant }?',
    ],
    [of('key: [ip, "claim: plan"]'), `key[1]: "claim: plan" is not allowed; allowed: ${keys}; did`],
    [of('key: { heder: x }'), 'limits[0].key.heder: is not known; did you mean header?'],
    [of('key: { header: x, claim: y }'), `a mapping is not allowed; allowed: ${keys}`],
    [of('key: user, otherwise: "header:x-tenant"'), 'did you mean { header: x-tenant }?'],
    [of('key: user, otherwise: { keys: ip }'), 'otherwise.keys: is not known; did you mean key?'],
    [
      of('key: user, otherwise: { key: usr }'),
      `limits[0].otherwise.key: "usr" is not allowed; allowed: ${keys}; did you mean user?`,
    ],
    [of('key: ip, algorithm: tokenbucket'), 'concurrency; did you mean tokenBucket?'],
    [
      'store: { password: { enw: A } }\nlimits: []\n',
      'store.password.enw: is not known; did you mean env?',
    ],
    [
      'store: { addresses: ["localhost:6379"] }\nlimits: []\n',
      'with mode memory, none; Redis needs mode standalone, sentinel or cluster',
    ],
    [
      'gateway: { trustProxy: yes }\nlimits: []\n',
      '"yes" is not allowed; allowed: a list such as [10.0.0.0/8], or the number of proxies',
    ],
    [
      `tiers: { names: ${'a'.repeat(40)}, default: a }\nlimits: []\n`,
      'tiers.names: the value is not allowed; allowed: a list',
    ],
  ])('%j', (text, message) => {
    const told = messages(text)
    expect(told.join('\n')).toContain(message)
    expect(told).toHaveLength(1)
  })

  it('takes both spellings of organisation', () => {
    const { limits, tiers } = document(`
limits: [{ name: a, key: [organization, ip], otherwise: organization, limit: 5, per: 1s }]
tiers: { names: [a], default: a, lookup: { file: t, by: organization } }
`)
    expect(limits[0]).toMatchObject({ key: ['organisation', 'ip'], otherwise: 'organisation' })
    expect(tiers?.lookup?.by).toBe('organisation')
  })

  it('is told together with mistakes between other sections', () => {
    const text = `
limits: [{ name: a, key: ip, limit: 5, per: 5 parsecs }]
upstreams: { api: { targets: [http://127.0.0.1:1] } }
routes: [{ upstream: apo }]
overrides: [{ limit: b, key: x, set: { limit: 1 } }]
`
    // Whether b is a limit is not known while limits have a mistake.
    expect(messages(text)).toEqual([
      expect.stringContaining('limits[0].per: "5 parsecs" is not allowed'),
      expect.stringContaining('routes[0].upstream: "apo" is not allowed; allowed: api'),
    ])
  })
})

const limit = (fields: string) => `limits:\n  - { name: a, key: everyone, limit: 5, ${fields} }\n`

describe('a mistake is told with its place, the value and what is allowed:', () => {
  test.each([
    [
      'limits:\n  - name: a\n    key: everyone\n    limit: 1\n    per: 5 parsecs\n',
      'tidegate.yaml:5:10 limits[0].per: "5 parsecs" is not allowed; allowed: a time such as ' +
        '250ms, 10s, 5m, 1h or 1d, up to 366 days',
    ],
    [
      'limits:\n  - name: a\n    key: everyone\n    limit: many\n    per: 1s\n',
      'tidegate.yaml:4:12 limits[0].limit: "many" is not allowed; allowed: ' +
        'a whole number from 0 to 9007199254740991',
    ],
    [
      'limits:\n  - name: a\n    key: everyone\n    limit: -1\n    per: 1s\n',
      'tidegate.yaml:4:12 limits[0].limit: -1 is not allowed; allowed: ' +
        'a whole number from 0 to 9007199254740991',
    ],
    [
      'limits:\n  - name: a\n    key: everyone\n    per: 1s\n',
      'tidegate.yaml:2:5 limits[0].limit: is missing; allowed: ' +
        'a whole number from 0 to 9007199254740991',
    ],
    [
      limit('per: 1s, brust: 6'),
      'tidegate.yaml:2:50 limits[0].brust: is not known; did you mean burst?',
    ],
    [
      limit('per: 1s, match: { paths: /v1 }'),
      'tidegate.yaml:2:59 limits[0].match.paths: is not known; did you mean path?',
    ],
    [
      limit('per: 1s, match: { weekday: 1 }'),
      'tidegate.yaml:2:59 limits[0].match.weekday: is not known; ' +
        'allowed: methods, path, headers, region',
    ],
    [
      limit('per: 1s, mode: enforced'),
      'tidegate.yaml:2:56 limits[0].mode: "enforced" is not allowed; allowed: enforce, shadow, off',
    ],
    [
      limit('per: 1s, cost: [{ match: { path: v1 }, cost: 1 }]'),
      'tidegate.yaml:2:74 limits[0].cost[0].match.path: "v1" is not allowed; ' +
        'allowed: a path such as /v1/users, /v1/*/items (* is one segment) or /v1/** (** is any ' +
        'number), with at most 30 segments, percent-encoded as in a URL',
    ],
    [
      limit('per: 1s, burst: 6, algorithm: slidingWindow'),
      'tidegate.yaml:2:57 limits[0].burst: 6 is not allowed; allowed: only with tokenBucket',
    ],
    [
      limit('per: 1s, ttl: 1s'),
      'tidegate.yaml:2:55 limits[0].ttl: "1s" is not allowed; allowed: only with concurrency',
    ],
    [
      limit('algorithm: concurrency'),
      'tidegate.yaml:2:5 limits[0].ttl: is missing; ' +
        'allowed: a time after which a lost slot is free again',
    ],
    [
      limit('algorithm: concurrency, ttl: 1s, cost: 2'),
      'tidegate.yaml:2:80 limits[0].cost: 2 is not allowed; ' +
        'allowed: none with concurrency: a request takes one slot',
    ],
    [
      limit('burst: 9'),
      'tidegate.yaml:2:5 limits[0].per: is missing; ' +
        'allowed: a time such as 250ms, 10s, 5m, 1h or 1d',
    ],
    [
      limit('per: day'),
      'tidegate.yaml:2:46 limits[0].per: "day" is not allowed; allowed: day with fixedWindow',
    ],
    [
      limit('per: day, algorithm: fixedWindow, timeZone: Mars/Base'),
      'tidegate.yaml:2:85 limits[0].timeZone: "Mars/Base" is not allowed; ' +
        'allowed: a time zone such as Europe/Berlin',
    ],
    [
      limit('per: 1s, within: b'),
      'tidegate.yaml:2:58 limits[0].within: "b" is not allowed; allowed: another limit',
    ],
    [
      limit('per: 1s, otherwise: ip'),
      'tidegate.yaml:2:61 limits[0].otherwise: "ip" is not allowed; ' +
        'allowed: none, because every request has this key',
    ],
    [
      limit('per: 1s, tiers: { free: { limit: 1 } }'),
      'tidegate.yaml:2:59 limits[0].tiers.free: "free" is not allowed; ' +
        'allowed: only with a section tiers',
    ],
    [
      limit('per: 1s, rollout: 101'),
      'tidegate.yaml:2:59 limits[0].rollout: 101 is not allowed; allowed: at most 100',
    ],
    [
      'limits:\n  - { name: a, key: apiKey, limit: 5, per: 1s }\n',
      'tidegate.yaml:2:5 limits[0].otherwise: is missing; ' +
        'allowed: deny, skip or another key, for requests without this one',
    ],
    [
      'limits:\n  - { name: a, key: route, limit: 5, per: 1s }\n',
      'tidegate.yaml:2:21 limits[0].key: "route" is not allowed; ' +
        'allowed: the key route only with match.path',
    ],
    [
      `${limit('per: 1s')}  - { name: a, key: everyone, limit: 5, per: 1s }\n`,
      'tidegate.yaml:3:13 limits[1].name: "a" is not allowed; ' +
        'allowed: a name that no other limit has, and limits[0] has this one',
    ],
    [
      `${limit('per: 1s, within: b')}  - { name: b, key: ip, limit: 5, per: 1s, within: a }\n`,
      'tidegate.yaml:2:58 limits[0].within: "b" is not allowed; ' +
        'allowed: a limit that is not within this one',
    ],
    [
      `${limit('per: 1s')}overrides:\n  - { limit: b, key: x, set: { limit: 1 } }\n`,
      'tidegate.yaml:4:14 overrides[0].limit: "b" is not allowed; allowed: a',
    ],
    [
      `${limit('per: 1s')}overrides:\n  - { limit: a, key: [x, y], set: { limit: 1 } }\n`,
      'tidegate.yaml:4:22 overrides[0].key: a list is not allowed; allowed: one text',
    ],
    [
      `${limit('per: 1s')}overrides: [{ limit: a, key: x, set: { limit: 1 }, expires: soon }]\n`,
      'tidegate.yaml:3:61 overrides[0].expires: "soon" is not allowed; ' +
        'allowed: a time such as 2026-12-01T00:00:00Z',
    ],
    [
      `${limit('per: 1s')}overrides:\n  - { limit: a, key: x, set: { ttl: 1s } }\n`,
      'tidegate.yaml:4:37 overrides[0].set.ttl: "1s" is not allowed; ' +
        'allowed: only with concurrency',
    ],
    [
      limit('per: 60'),
      'tidegate.yaml:2:46 limits[0].per: 60 is not allowed; ' +
        'allowed: a duration with its unit, such as 60s or 60ms',
    ],
    [
      limit('per: "60"'),
      'tidegate.yaml:2:46 limits[0].per: "60" is not allowed; ' +
        'allowed: a duration with its unit, such as 60s or 60ms',
    ],
    [
      limit('algorithm: concurrency, ttl: 5000'),
      'limits[0].ttl: 5000 is not allowed; allowed: a duration with its unit, ' +
        'such as 5000s or 5000ms',
    ],
    [
      'gateway: { timeouts: { drain: 30 } }\n',
      'gateway.timeouts.drain: 30 is not allowed; allowed: a duration with its unit, ' +
        'such as 30s or 30ms',
    ],
    [
      'gateway: { timeouts: { drain: 0.5 } }\n',
      'gateway.timeouts.drain: 0.5 is not allowed; allowed: a time such as 250ms, 10s',
    ],
    [
      `${limit('per: 1s')}overrides: [{ limit: a, key: 12345678901234567890, set: { per: 1s } }]\n`,
      'tidegate.yaml:3:30 overrides[0].key: the value is not allowed; ' +
        'allowed: a text in quotes, because as a number it would lose digits',
    ],
    [
      'tiers: { names: [free], default: basic }\n',
      'tidegate.yaml:1:34 tiers.default: "basic" is not allowed; allowed: free',
    ],
    [
      'tiers: { names: [], default: free }\n',
      'tidegate.yaml:1:17 tiers.names: a list is not allowed; allowed: at least 1 entry',
    ],
    [
      'tiers: { names: [free], default: free, lookup: { file: t.yaml } }\n',
      'tidegate.yaml:1:48 tiers.lookup.by: is missing; allowed: apiKey, user or organisation',
    ],
    [
      'tiers: { names: [free], default: free, lookup: { claim: t, file: t.yaml } }\n',
      'tidegate.yaml:1:48 tiers.lookup: a mapping is not allowed; ' +
        'allowed: exactly one of claim, file and url',
    ],
    [
      'tiers: { names: [free], default: free, lookup: { url: "http://{key}.x/", by: user } }\n',
      'tidegate.yaml:1:55 tiers.lookup.url: the value is not allowed; ' +
        'allowed: a URL such as http://tiers.internal/v1/{key}',
    ],
    [
      'upstreams: { a: { targets: ["http://127.0.0.1:1"] } }\nroutes: [{ upstream: b }]\n',
      'tidegate.yaml:2:22 routes[0].upstream: "b" is not allowed; allowed: a',
    ],
    [
      'ipLists: { deny: [10.0.0.0/33] }\n',
      'tidegate.yaml:1:19 ipLists.deny[0]: "10.0.0.0/33" is not allowed; ' +
        'allowed: an address or a CIDR such as 10.0.0.0/8 or 2001:db8::/32',
    ],
    [
      'upstreams: { a: { targets: [127.0.0.1:8081] } }\n',
      'tidegate.yaml:1:29 upstreams.a.targets[0]: the value is not allowed; ' +
        'allowed: an origin such as http://127.0.0.1:8081',
    ],
    ['version: 2\n', 'tidegate.yaml:1:10 version: 2 is not allowed; allowed: 1'],
    ['limits:\n', 'tidegate.yaml:1:8 limits: null is not allowed; allowed: a list'],
    ['- a\n', 'tidegate.yaml:1:1 a list is not allowed; allowed: a mapping'],
    ['', 'tidegate.yaml:1:1 the file is empty; allowed: a policy'],
    ['# nothing\n', 'tidegate.yaml:1:1 the file is empty; allowed: a policy'],
  ])('%j', (text, message) => {
    expect(messages(text).join('\n')).toContain(message)
  })

  it('as many as there are, in the order of their lines, but not a flood', () => {
    const lines = messages(`enabld: 1\n${limit('per: 1s, mode: x')}version: 3\n`)
    expect(lines.map((line) => line.split(' ')[0])).toEqual([
      'tidegate.yaml:1:1',
      'tidegate.yaml:3:56',
      'tidegate.yaml:4:10',
    ])
    expect(messages(`limits: [${'1, '.repeat(200)}]`)).toHaveLength(20)
  })

  it('without what may be a secret', () => {
    const text = 'store: { mode: standalone, addresses: [a:1], password: hunter2 }\n'
    const [, line = ''] = messages(text)
    expect(line).toContain(
      'store.password: the value is not allowed; allowed: { env: NAME } or { file: PATH }',
    )
    expect(line).not.toContain('hunter2')
  })

  it('in one line without control characters, however strange the value', () => {
    const [, line = ''] = messages(`version: "${'\\x1b'.repeat(200)}\\u202e\\n"`)
    expect(line.length).toBeLessThan(200)
    for (const character of line) expect(character.charCodeAt(0)).toBeGreaterThan(31)
  })
})
