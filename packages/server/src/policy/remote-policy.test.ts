import { expect, test } from 'vitest'
import { readRemotePolicy } from './read-policy.ts'
import { remoteSections } from './remote-policy.ts'
import { policyJsonSchema, type SchemaNode } from './schema/json-schema.ts'
import { policySchema } from './schema/policy-schema.ts'

const local = (allow: object, more: object = {}) => ({
  file: 'tidegate.yaml',
  text: JSON.stringify({
    ...more,
    upstreams: { api: { targets: ['http://127.0.0.1:1'] } },
    control: { etcd: { endpoints: ['http://127.0.0.1:2379'] }, allow },
    limits: [],
  }),
})

function problemsOf(published: object, allow: object = {}): string {
  const remote = { file: 'version 1', text: JSON.stringify({ limits: [], ...published }) }
  const read = readRemotePolicy(local(allow), remote)
  return read.ok ? '' : read.problems.map(({ message }) => message).join('\n')
}

test('sections with listeners, stores, certificates or secrets stay in the local file', () => {
  const sections = Object.keys(policySchema.shape)
  const kept = sections.filter((section) => !remoteSections.some((known) => known === section))
  expect(kept).toEqual([
    ...['region', 'regions', 'store', 'gateway', 'auth', 'upstreams', 'digests'],
    ...['decisionApi', 'rateLimitService', 'admin', 'control'],
  ])
  for (const section of kept) {
    expect(problemsOf({ [section]: {} })).toContain(`${section}: cannot be published`)
  }
})

test('idempotency keys can be published, and their encryption key stays in the local file', () => {
  const encryptionKey = { env: 'KEPT' }
  const own = local({}, { idempotency: { required: true, encryptionKey } })
  const published = { limits: [], idempotency: { ttl: '2h' } }
  const read = readRemotePolicy(own, { file: 'version 1', text: JSON.stringify(published) })
  const section = read.ok ? read.document.idempotency : undefined
  expect(section).toMatchObject({ ttl: 7_200_000, required: false, encryptionKey })
  for (const secret of [{ env: 'HOME' }, { file: '/etc/passwd' }, null]) {
    const problems = problemsOf({ idempotency: { encryptionKey: secret } })
    expect(problems).toContain('idempotency.encryptionKey: cannot be published')
  }
})

test('only the look-up of tiers can name a file, a variable or a URL in a published policy', () => {
  const { properties = {} } = policyJsonSchema()
  const named = remoteSections.flatMap((section) => fieldsOf(properties[section], section))
  const isPlace = /\.(files?|urls?|uri|env|ca|cert|\w*File|jwks\w*|secret|password|token|targets)$/
  const refused = /^idempotency\.encryptionKey\./
  const places = named.filter((field) => isPlace.test(field) && !refused.test(field))
  expect(new Set(places)).toEqual(new Set(['tiers.lookup.file', 'tiers.lookup.url']))
})

test('a published policy may name a file or a URL only as the local file lists it', () => {
  const lookup = (place: object) => ({
    tiers: { names: ['a'], default: 'a', lookup: { ...place, by: 'user' } },
  })
  const url = 'http://tiers.internal/v1/{key}'
  expect(problemsOf(lookup({ file: 'tiers.yaml' }))).toContain('control.allow.files')
  expect(problemsOf(lookup({ url }))).toContain('control.allow.urls')
  expect(problemsOf(lookup({ file: 'tiers.yaml' }), { files: ['tiers.yaml'] })).toBe('')
  expect(problemsOf(lookup({ url }), { urls: [url] })).toBe('')
  for (const other of ['./tiers.yaml', 'x/../tiers.yaml', '/tiers.yaml', 'TIERS.yaml']) {
    const problems = problemsOf(lookup({ file: other }), { files: ['tiers.yaml'] })
    expect(problems).toContain('control.allow.files')
  }
  const elsewhere = 'http://tiers.internal.example/v1/{key}'
  expect(problemsOf(lookup({ url: elsewhere }), { urls: [url] })).toContain('control.allow.urls')
})

test('a published policy cannot extend what is allowed, or name an unknown upstream', () => {
  const control = { allow: { files: ['/etc/passwd'] } }
  const tiers = { names: ['a'], default: 'a', lookup: { file: '/etc/passwd', by: 'user' } }
  expect(problemsOf({ control, tiers })).toContain('control: cannot be published')
  const routes = [{ match: { path: '/**' }, upstream: 'metadata' }]
  expect(problemsOf({ routes })).toContain('upstream')
})

test('text of a published policy reaches no log or terminal as it is', () => {
  const hostile = 'a\u001b[2J\u202e\n\u0007'
  for (const published of [
    { limits: [{ name: hostile, key: 'everyone', limit: 1, per: '1s' }] },
    { [hostile]: 1 },
    { log: { level: hostile } },
    { tiers: { names: [hostile], default: hostile } },
  ]) {
    const problems = problemsOf(published)
    expect(problems).not.toBe('')
    expect(problems.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u)
  }
})

/** The paths of all fields of a schema. */
function fieldsOf(schema: SchemaNode | undefined, path: string): string[] {
  if (schema === undefined) return []
  const { properties = {}, items, additionalProperties: others, anyOf = [] } = schema
  return [
    ...Object.entries(properties).flatMap(([name, field]) => [
      `${path}.${name}`,
      ...fieldsOf(field, `${path}.${name}`),
    ]),
    ...fieldsOf(items, path),
    ...fieldsOf(typeof others === 'object' ? others : undefined, path),
    ...anyOf.flatMap((one) => fieldsOf(one, path)),
  ]
}
