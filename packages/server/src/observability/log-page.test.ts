/** Compares docs/logs.md with the lines that the code makes of every event. */

import { type LimiterEvent, TidegateError } from 'tidegate'
import { expect, test } from 'vitest'
import { readText } from '../../../../test/house/source-file.ts'
import { keyedDigest } from './digests.ts'
import { logEvents } from './event-log.ts'
import type { ServiceEvent } from './events.ts'
import { type AccessRecord, jsonAccess } from './lines/access-line.ts'
import { clientAddress } from './lines/client-address.ts'
import type { LogLine } from './log-line.ts'
import type { CutOffLine, DecisionLine, RefusalLine, TargetChange } from './traffic-events.ts'

const caller = {
  ...{ request_id: 'a', trace_id: 'a', client_id: 'a', api_key_hash: 'a', endpoint: 'GET /' },
  ...{ region: 'a', node_id: 'a' },
}

const refusal: Required<RefusalLine> = {
  ...caller,
  ...{ status: 404, reason: 'No route.', priority: 'normal', upstream: 'a', upstream_ms: 1 },
}

const cutOff: Required<CutOffLine> = {
  ...caller,
  ...{ status: 200, reason: 'UPSTREAM_CLOSED', target: 'a', upstream: 'a', upstream_ms: 1 },
}

const decision: Required<DecisionLine> = {
  ...caller,
  ...{ door: 'gateway', outcome: 'denied', reason: 'a', limit_name: 'a', key_hash: 'a' },
  ...{ counter: 1, limit: 1, window_sec: 1, reset_at: 'a', fallback: false, shadow_denied: [] },
  ...{ store_ms: 1, upstream_ms: 1, sample_rate: 1, policy: 'a' },
}

const changes: readonly TargetChange[] = [
  { type: 'failing', reason: 'a' },
  { type: 'ejected', reason: 'a', failures: 1, forMs: 1 },
  { type: 'recovered', downMs: 1 },
  { type: 'unhealthy', reason: 'a' },
  { type: 'healthy' },
]

const ofStore: readonly LimiterEvent[] = [
  { type: 'breaker', shard: 'a', from: 'closed', to: 'open' },
  { type: 'recovered', shard: 'a', outageMs: 1 },
  { type: 'misconfigured', error: new TidegateError('store-misconfigured', 'NOPERM') },
  { type: 'hot', limit: 'a', key: 'a', perSecond: 1 },
  { type: 'nodes', count: 1 },
]

/** Samples of every event, so that every line and every field occurs. */
const samples: { readonly [T in ServiceEvent['type']]: readonly (ServiceEvent & { type: T })[] } = {
  store: ofStore.map((event) => ({ type: 'store', store: 'main', event })),
  'store-connection': [{ type: 'store-connection', store: 'main', error: new Error('a') }],
  'tier-unknown': [{ type: 'tier-unknown', reason: 'a', detail: 'a' }],
  'shadow-failed': [{ type: 'shadow-failed', limit: 'a' }],
  overloaded: [{ type: 'overloaded', delayMs: 1, requests: 1 }],
  'overload-ended': [{ type: 'overload-ended', forMs: 1, shed: {} }],
  'config-applied': [
    { type: 'config-applied', version: 'a', limits: 1, limitsBefore: 0 },
    { type: 'config-applied', version: 'a', limits: 0, limitsBefore: 1 },
  ],
  'config-refused': [{ type: 'config-refused', problems: [] }],
  'config-needs-restart': [{ type: 'config-needs-restart', sections: [] }],
  'control-contact': [
    { type: 'control-contact', place: 'a', isReachable: true, problem: '' },
    { type: 'control-contact', place: 'a', isReachable: false, problem: 'a' },
  ],
  'region-link': [
    { type: 'region-link', region: 'a', isUp: true, problem: undefined },
    { type: 'region-link', region: 'a', isUp: false, problem: 'a' },
  ],
  'control-note': [{ type: 'control-note', text: 'a' }],
  audit: [{ type: 'audit', record: {} }],
  'trace-export': [
    { type: 'trace-export', url: 'a', problem: 'a' },
    { type: 'trace-export', url: 'a', problem: undefined },
  ],
  idempotency: (['unavailable', 'unprotected', 'unsaved', 'superseded'] as const).map(
    (problem) => ({ type: 'idempotency', problem, reason: 'a' }),
  ),
  'live-entries': [
    { type: 'live-entries', overrides: 1, blocks: 1, problems: [] },
    { type: 'live-entries', overrides: 1, blocks: 1, problems: ['a'] },
  ],
  decision: [
    { type: 'decision', level: 'info', line: decision },
    { type: 'decision', level: 'warn', line: decision },
  ],
  'request-refused': [
    { type: 'request-refused', level: 'info', line: refusal },
    { type: 'request-refused', level: 'warn', line: refusal },
  ],
  'response-cut-off': [{ type: 'response-cut-off', line: cutOff }],
  'connection-refused': [
    { type: 'connection-refused', client: 'a', reason: 'heldOff', nodeId: 'a' },
  ],
  target: changes.map((change) => {
    return { type: 'target', upstream: 'a', target: 'a', change, nodeId: 'a' }
  }),
  'gateway-error': [{ type: 'gateway-error', error: new Error('a'), requestId: 'a' }],
  'lines-left-out': [{ type: 'lines-left-out', count: 1, nodeId: 'a' }],
  'log-failed': [{ type: 'log-failed', log: 'access', reason: 'ENOSPC' }],
  'log-reopened': [
    { type: 'log-reopened', log: 'access', problem: undefined },
    { type: 'log-reopened', log: 'access', problem: 'a' },
  ],
  'setting-ignored': [{ type: 'setting-ignored', text: 'a' }],
  error: [{ type: 'error', error: new Error('a') }],
  'process-warning': [{ type: 'process-warning', code: 'a', reason: 'a' }],
}

const page = readText('docs/logs.md')

const namesIn = (text = '') => [...text.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)

/** Levels and fields by event, each sorted. */
type Listed = Record<string, { levels: string[]; fields: string[] }>

test('docs/logs.md lists every event with its levels and its fields', () => {
  const row = /^\| `([a-z_.]+)` \| ([a-z, ]+) \|([^|]*)\| [^|]+ \|$/gm
  const documented: Listed = {}
  for (const [, event = '', levels = '', fields] of page.matchAll(row)) {
    documented[event] = { levels: levels.split(', ').sort(), fields: namesIn(fields).sort() }
  }
  const made: Listed = {}
  for (const event of Object.values(samples).flat()) {
    const lines: LogLine[] = []
    logEvents((line) => void lines.push(line))(event)
    for (const { event: name, level, fields } of lines) {
      const { levels, fields: known } = made[name] ?? { levels: [], fields: [] }
      made[name] = {
        levels: [...new Set([...levels, level])].sort(),
        fields: [...new Set([...known, ...Object.keys(fields)])].sort(),
      }
    }
  }
  expect(documented).toEqual(made)
})

test('docs/logs.md explains every field of a decision and of the access log', () => {
  const fieldsUnder = (head: string) => {
    const table = page.split(`| ${head} | meaning |\n|---|---|\n`)[1]?.split('\n\n')[0] ?? ''
    const cells = table.split('\n').map((line) => line.split(' | ')[0])
    return cells.flatMap(namesIn).sort()
  }
  expect(fieldsUnder('field of `ratelimit.decision`')).toEqual(Object.keys(decision).sort())
  const record: Required<AccessRecord> = {
    ...{ startedMs: 0, durationMs: 1, requestId: 'a', traceId: 'a', ip: '192.0.2.1' },
    ...{ method: 'GET', host: 'a', path: '/', query: '?a=b', version: '1.1', status: 200 },
    ...{ bytesIn: 1, bytesOut: 1, route: 'a', upstream: 'a', target: 'a', upstreamMs: 1 },
    ...{ userAgent: 'a', referer: 'a', problem: 'a', isAborted: true },
  }
  const address = clientAddress('raw', keyedDigest('a'))
  const format = jsonAccess({ address, query: 'full', nodeId: 'a', region: 'a' })
  expect(fieldsUnder('field')).toEqual(Object.keys(JSON.parse(format(record, 0.5))).sort())
})
