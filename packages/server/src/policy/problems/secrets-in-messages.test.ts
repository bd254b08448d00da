/** Whatever stands in a policy: no message about it repeats a secret. */

import { describe, expect, it, test } from 'vitest'
import { maskSecrets } from '../../config/mask-secrets.ts'
import { secretReader } from '../../config/secrets.ts'
import { parsePolicy, readPolicy } from '../read-policy.ts'
import { readTierTable } from '../read-tier-table.ts'
import { policyJsonSchema, type SchemaNode } from '../schema/json-schema.ts'

type Path = readonly (string | number)[]

const CANARY = 'canary7291'

/** Wrong for every field of a policy, so that a message is about it. */
const bare = `${CANARY} \u0001 ${CANARY}`

const shaped = [
  `redis://:${CANARY}@redis.internal:6379/0 x`,
  `https://user:${CANARY}@api.internal/?q= ${'x'.repeat(200)}`,
  `${'x'.repeat(70)}http://u:${CANARY}${'y'.repeat(80)}@h \u0001`,
  `user:${CANARY}@redis.internal:6379 x`,
  `password=${CANARY} \u0001`,
  `Authorization:Bearer ${CANARY}`,
  `Bearer ${CANARY} \u0001`,
  `-----BEGIN PRIVATE KEY-----${CANARY}`,
]

interface Place {
  readonly path: Path
  /** Whether it takes a text of any kind, times and sizes excepted. */
  readonly isText: boolean
}

/** Every place of the schema, with a name for entries of records and the first entry of lists. */
function* places(node: SchemaNode, path: Path = []): Generator<Place> {
  yield { path, isText: isText(node) }
  yield* inner(node, path)
}

function isText({ type, anyOf = [], examples = [], ...node }: SchemaNode): boolean {
  if (examples.some((example) => /^\d+(ms|kb)$/.test(String(example)))) return false
  return (type === 'string' && node.enum === undefined) || anyOf.some(isText)
}

function* inner(node: SchemaNode, path: Path): Generator<Place> {
  for (const branch of node.anyOf ?? []) yield* inner(branch, path)
  for (const [field, child] of Object.entries(node.properties ?? {})) {
    yield* places(child, [...path, field])
  }
  if (typeof node.additionalProperties === 'object') {
    yield* places(node.additionalProperties, [...path, 'some-name'])
  }
  if (node.items !== undefined) yield* places(node.items, [...path, 0])
}

const found = [...places(policyJsonSchema())]
const allPlaces = [
  ...new Map(found.map(({ path }) => [JSON.stringify(path), path] as const)).values(),
]
const texts = new Set(found.filter(({ isText }) => isText).map(({ path }) => JSON.stringify(path)))

function placed(path: Path, value: unknown): unknown {
  const [part, ...rest] = path
  if (part === undefined) return value
  const child = placed(rest, value)
  return typeof part === 'number' ? [child] : { [part]: child }
}

function messages(value: unknown): string {
  const result = parsePolicy(value)
  return result.ok ? '' : result.problems.map(({ message }) => message).join('\n')
}

/** Without the branches of a choice that have the same name. */
const fieldOf = (path: Path) => path.filter((part) => part !== 0).join('.')

describe('a message about a policy', () => {
  it('repeats no text of a field that can hold a secret', () => {
    const repeating = allPlaces
      .filter((path) => texts.has(JSON.stringify(path)))
      .filter((path) => messages(placed(path, bare)).includes(CANARY))
    const names = repeating.map((path) => String(path.findLast((part) => typeof part === 'string')))
    // A new name here must be that of a field that cannot hold a secret.
    expect([...new Set(names)].sort()).toEqual([
      'addPrefix',
      'allow',
      'default',
      'deny',
      'expires',
      'failures',
      'healthPath',
      'host',
      'limit',
      'methods',
      'name',
      'names',
      'node',
      'origins',
      'otherwise',
      'path',
      'paths',
      'readyPath',
      'region',
      'stripPrefix',
      'trustProxy',
      'upstream',
      'within',
    ])
    expect(allPlaces.map(fieldOf)).toEqual(
      expect.arrayContaining([
        'store.addresses',
        'store.password.env',
        'upstreams.some-name.targets',
        'routes.requestHeaders.set.some-name',
        'tiers.lookup.url',
        'limits.match.headers.some-name',
        'decisionApi.token.file',
      ]),
    )
  })

  it.each(shaped)('repeats nothing that looks like a secret in any field: %s', (text) => {
    const repeating = allPlaces.filter((path) => messages(placed(path, text)).includes(CANARY))
    expect(repeating).toEqual([])
    // In place of a name as well.
    const named = allPlaces.filter((path) =>
      messages(placed([...path, text], null)).includes(CANARY),
    )
    expect(named).toEqual([])
  })

  it('repeats no number of such a field', () => {
    const number = 729_172_917_291
    for (const path of [
      ['store', 'password'],
      ['routes', 0, 'requestHeaders', 'set', 'authorization'],
      ['decisionApi', 'token'],
    ]) {
      const text = messages(placed(path, number))
      expect(text).toContain('the value is not allowed')
      expect(text).not.toContain(String(number))
      expect(messages(placed(path, `env:${CANARY}`))).not.toContain(CANARY)
    }
  })

  test.each([
    `store: {\n  password: "${CANARY}\n`,
    `store: { password: "\\U${CANARY}" }\n`,
    `store: { password: "\\${CANARY}" }\n`,
    `store:\n  password: |${CANARY}\n    x\n`,
    `store: { password:${CANARY} }\n`,
    `store:\n  mode: memory\n  password:${CANARY}\n`,
    `store:\n  password: 'a' ${CANARY}\n`,
    `store:\n  password: [a] ${CANARY}\n`,
    `store:\n  password: @${CANARY}\n`,
    `store:\n  password: %${CANARY}\n%${CANARY}\n`,
    `store:\n  password: *${CANARY}\n`,
    `store:\n  password: !${CANARY} x\n`,
    `store:\n  password: &${CANARY} x\n`,
    `store:\n  password: a: ${CANARY}\n`,
    `? [password, ${CANARY}]\n: x\n`,
    `]${CANARY}\n`,
    `store: { password: x }} ${CANARY}\n`,
  ])('repeats no line of a file that is not YAML: %j', (text) => {
    const result = readPolicy(text, 'tidegate.yaml')
    const told = result.ok ? [] : result.problems.map(({ message }) => message)
    expect(told.join('\n')).toMatch(/^tidegate\.yaml:\d+:\d+ ./)
    expect(told.join('\n')).not.toContain(CANARY)
  })

  it('repeats nothing of a file of secrets that is named as the file of tiers', () => {
    const text = `API_KEY: ${CANARY}\nDB: postgres://u:${CANARY}@db/x\nLIST: [${CANARY}]\n`
    const result = readTierTable(text, 'tiers.yaml', ['free'])
    expect(result.ok ? '' : JSON.stringify(result.problems)).not.toContain(CANARY)
  })

  it('repeats no secret that stands in place of where it is', () => {
    const read = secretReader({}, '/')
    for (const secret of [{ env: CANARY }, { file: CANARY }]) {
      expect(() => read(secret, 'store.password')).toThrow(/^store\.password: the /)
      expect(() => read(secret, 'store.password')).not.toThrow(CANARY)
    }
    expect(() => read({ env: 'REDIS_PASSWORD' }, 'store.password')).toThrow('REDIS_PASSWORD is not')
  })
})

describe('maskSecrets', () => {
  test.each(['a://', 'a:', 'u:p', 'password:', 'bearer ', 'Unexpected token ', '-----BEGIN '])(
    'takes no time for a long text of %j',
    (unit) => {
      const startMs = performance.now()
      maskSecrets(unit.repeat(250_000 / unit.length))
      messages({ limits: [{ name: unit.repeat(250_000 / unit.length) }] })
      expect(performance.now() - startMs).toBeLessThan(10_000)
    },
  )

  test.each([
    'tidegate.yaml:1:2 store.password: the value is not allowed; allowed: { env: NAME }',
    'auth.apiKeys.secret: the environment variable KEYS is not set',
    'limits[0].per: "5 parsecs" is not allowed; allowed: a time such as 250ms, 10s',
    'upstreams.a.targets[0]: allowed: an origin such as http://127.0.0.1:8081',
    'store.addresses[0]: allowed: an address such as localhost:6379 or [::1]:6379',
    'the bearer token cannot be read: the answer is 401',
    'routes[0].upstream: api@2 is none of: a, b',
  ])('leaves %j', (text) => expect(maskSecrets(text)).toBe(text))

  test.each([
    ['connect redis://u:p@h:1 failed', 'connect redis://***@h:1 failed'],
    ['"token=abc", x', '"token=***", x'],
    [`Unexpected token 'h', "hunter2" is not valid JSON`, 'it is not valid JSON'],
  ])('cleans %j', (text, clean) => expect(maskSecrets(text)).toBe(clean))
})
