import { expect, test } from 'vitest'
import { keyedDigest } from '../digests.ts'
import { type AccessRecord, combinedAccess, jsonAccess } from './access-line.ts'
import { clientAddress } from './client-address.ts'

const digest = keyedDigest('a secret')

const record: AccessRecord = {
  startedMs: Date.UTC(2026, 2, 14, 10, 23, 45, 7),
  durationMs: 12.3456,
  requestId: 'id-1',
  traceId: undefined,
  ip: '203.0.113.77',
  method: 'GET',
  host: 'a.example',
  path: '/v1/items',
  query: '?page=2&token=geheim&flag',
  version: '1.1',
  status: 200,
  bytesIn: 0,
  bytesOut: 42,
  route: '/**',
  upstream: 'api',
  target: 'http://127.0.0.1:1',
  upstreamMs: 3,
  userAgent: 'curl/8',
  referer: 'https://user:geheim@b.example/x?token=geheim#geheim',
  problem: undefined,
  isAborted: false,
}

const place = { nodeId: 'n', region: undefined }
const address = clientAddress('truncated', digest)

/** As goaccess reads `--log-format=COMBINED`, with the escapes of nginx. */
const quoted = (name: string) => `"(?<${name}>(?:[^"\\\\]|\\\\x[0-9A-F]{2})*)"`
const time = '\\[\\d\\d/[A-Z][a-z]{2}/\\d{4}:\\d\\d:\\d\\d:\\d\\d \\+0000\\]'
const figures = '(?<status>\\d{3}) (?<bytes>\\d+)'
const combined = new RegExp(
  `^\\S+ - \\S+ ${time} ${quoted('request')} ${figures} ${quoted('referer')} ${quoted('agent')}\n$`,
)

const hostile: Readonly<Record<string, string>> = {
  newline: 'a\r\n{"event":"forged"}',
  quote: '" 200 0 "-" "forged',
  backslash: '\\" \\x22 \\',
  control: '\x00\x07\x1b[31m\x7f\x9b31m',
  bidi: 'evil\u202egpj.exe\u2066\u2028\u2029\ufeff',
  surrogate: '\ud800',
  long: 'x'.repeat(10_000),
  longEscaped: '"'.repeat(10_000),
}

test('a line in JSON has all fields, without the values of the query', () => {
  const line = jsonAccess({ ...place, address, query: 'omitted' })(record, 1)
  expect(JSON.parse(line)).toEqual({
    ...{ ts: '2026-03-14T10:23:45.007Z', level: 'info', event: 'gateway.access' },
    ...{ request_id: 'id-1', trace_id: null, client_ip: '203.0.113.0', method: 'GET' },
    ...{ host: 'a.example', path: '/v1/items', protocol: 'HTTP/1.1', status: 200 },
    ...{ duration_ms: 12.346, bytes_in: 0, bytes_out: 42, route: '/**', upstream: 'api' },
    ...{ target: 'http://127.0.0.1:1', upstream_ms: 3, user_agent: 'curl/8' },
    ...{ referer: 'https://b.example/x', region: null, node_id: 'n' },
  })
})

test.each([
  ['omitted', undefined, 'https://b.example/x'],
  ['masked', '?page=***&token=***&***', 'https://b.example/x?token=***'],
  ['full', record.query, 'https://b.example/x?token=geheim#geheim'],
] as const)('a query that is %s', (query, shown, referer) => {
  const parsed = JSON.parse(jsonAccess({ ...place, address, query })(record, 1))
  expect([parsed.query, parsed.referer]).toEqual([shown, referer])
})

test('a sampled line has its rate, a refusal its problem, a disconnect its mark', () => {
  const refused = { ...record, problem: 'No route.', isAborted: true }
  const line = jsonAccess({ ...place, address, query: 'omitted' })(refused, 0.25)
  expect(JSON.parse(line)).toMatchObject({ problem: 'No route.', aborted: true, sample_rate: 0.25 })
})

test('the combined format is read by tools for it', () => {
  const line = combinedAccess({ ...place, address, query: 'omitted' })(record, 1)
  expect(line).toBe(
    '203.0.113.0 - - [14/Mar/2026:10:23:45 +0000] "GET /v1/items HTTP/1.1" 200 42 ' +
      '"https://b.example/x" "curl/8"\n',
  )
  expect(line).toMatch(combined)
  const unread = { ...record, method: '', path: '', ip: undefined, userAgent: undefined }
  expect(combinedAccess({ ...place, address, query: 'full' })(unread, 1)).toMatch(combined)
})

test.each(Object.entries(hostile))('no text of a client breaks a line: %s', (_name, text) => {
  const bad = { ...record, userAgent: text, referer: text, path: `/${text}`, query: `?${text}` }
  for (const query of ['omitted', 'masked', 'full'] as const) {
    const options = { ...place, address, query }
    const json = jsonAccess(options)({ ...bad, host: text, method: text }, 1)
    const plain = combinedAccess(options)(bad, 1)
    for (const line of [json, plain]) {
      expect(line).toMatch(/^[\x20-\x7e]*\n$/)
      expect(line.length).toBeLessThan(4_096)
    }
    expect(JSON.parse(json)).toMatchObject({ event: 'gateway.access', status: 200 })
    expect(combined.exec(plain)?.groups).toMatchObject({ status: '200', bytes: '42' })
  }
})

test.each([
  ['raw', '203.0.113.77', '203.0.113.77'],
  ['raw', '2001:db8:1:2::3', '2001:db8:1:2::3'],
  ['truncated', '203.0.113.77', '203.0.113.0'],
  ['truncated', '2001:db8:1:2::3', '2001:db8:1::'],
  ['truncated', '::ffff:203.0.113.77', '203.0.113.0'],
  ['digest', '203.0.113.77', digest('203.0.113.77')],
] as const)('%s of %s is %s', (mode, ip, shown) => {
  expect(clientAddress(mode, digest)(ip)).toBe(shown)
})
