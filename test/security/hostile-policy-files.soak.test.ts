/**
 * Hostile policy files of a running gateway: each is rejected, the previous one stays live, and
 * requests are served meanwhile. Delays are measured in the gateway itself, without stalls of the
 * machine.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { YAML_BYTES_MAX } from '../../packages/server/src/config/yaml/yaml-text.ts'
import { sendRaw } from '../e2e/gateway/raw-client.ts'
import { type StallWatch, stalledMs, startStallWatch } from '../e2e/rls/stall-watch.ts'
import { until } from '../support/servers/until.ts'
import { sizes } from '../support/suite.ts'
import { type ProbeAnswer, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { echo, startRecordingUpstream } from './recording-upstream.ts'

const stops: (() => unknown)[] = []
let gateway: ProbedGateway
let before: ProbeAnswer
let watch: StallWatch

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const upstream = await startRecordingUpstream(echo, atEnd)
  const policy = {
    upstreams: { api: { targets: [upstream.url] } },
    limits: [{ name: 'all', key: 'ip', limit: 1_000_000, per: '1h' }],
  }
  gateway = await startProbedGateway(policy, { atEnd })
  before = await gateway.probe()
  watch = await startStallWatch([gateway.child.pid ?? 0])
  atEnd(() => watch.stop())
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** A text of at most the maximum length of a policy. */
const filled = (unit: string, length = YAML_BYTES_MAX) => unit.repeat(length / unit.length)

const SHORT = 15 * 1_024

const laughs = Array.from({ length: 30 }, (_, at) => {
  return `l${at}: &l${at} [${at === 0 ? 'ha' : `*l${at - 1}, `.repeat(9)}]`
}).join('\n')

const merges = Array.from({ length: 2_000 }, (_, at) => {
  return `m${at}: &m${at}\n  <<: [${at === 0 ? '{}' : `*m${at - 1}, *m${at - 1}`}]\n  k${at}: 1`
}).join('\n')

function many(count: number, unit: (at: number) => string): string {
  return Array.from({ length: count }, (_, at) => unit(at))
    .join('\n')
    .slice(0, YAML_BYTES_MAX)
}

/** One of each kind. The gateway reads each of them for about a second. */
const files: readonly (readonly [name: string, text: string])[] = [
  ['a billion laughs', laughs],
  ['open brackets', filled('[')],
  ['100,000 limits', `limits: [${filled('{},')}]`.slice(0, YAML_BYTES_MAX - 1)],
  ['a few kilobytes of wrong addresses', `ipLists: { deny: [${filled('x,', SHORT)}] }`],
  ['__proto__', '__proto__: { polluted: yes, enabled: false }'],
  ['__proto__ as an escape', '"\\x5f_proto__": { polluted: yes }'],
  ['__proto__ deeper down', 'gateway: { timeouts: { __proto__: { polluted: yes } } }'],
  ['a tag that runs code', 'a: !!js/function "function () { return process.exit() }"'],
  ['merge keys of merge keys', merges],
  ['many names', many(29_000, (at) => `k${at}: 1`)],
  ['wrong escapes', `"${filled('\\x')}`.slice(0, YAML_BYTES_MAX)],
  ['commas', `[${filled(',')}`.slice(0, YAML_BYTES_MAX)],
  ['patterns of stars', `limits: [{ name: a, match: { path: "/${'**/'.repeat(60_000)}" } }]`],
  ['a few kilobytes of commas', `[${filled(',', SHORT)}`],
  ['a few kilobytes of quotes', filled('"" ', SHORT)],
  ['a few kilobytes of unknown fields', many(1_500, (at) => `f${at}: 1`)],
]

const get = 'GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'

/**
 * Writes the file and sends requests until it is rejected; returns the number of responses, and the
 * longest stall.
 */
async function refuseWhileAsking(text: string) {
  const marks = () => gateway.output().split('"event":"policy.refused"').length
  const count = marks()
  await gateway.probe()
  gateway.write(text)
  let answers = 0
  await until('it is refused', async () => {
    const answer = await sendRaw(gateway.port, get)
    if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer)
    answers += 1
    return marks() > count
  })
  const { heldUp } = await gateway.probe()
  const stalls = await watch.stalls()
  const ownMs = heldUp.map(({ fromMs, toMs }) => toMs - fromMs - stalledMs(stalls, fromMs, toMs))
  return { answers, heldMs: Math.max(0, ...ownMs) }
}

describe('a policy file of', () => {
  test.each(files)('%s is refused, and requests go on', async (_name, text) => {
    const { version } = (await gateway.status()).policy
    const { answers, heldMs } = await refuseWhileAsking(text)
    // One is enough: a small file is refused while a client that stalls sends its first request.
    expect(answers).toBeGreaterThan(0)
    expect(heldMs).toBeLessThanOrEqual(sizes.heldMsMax)
    const { policy } = await gateway.status()
    expect(policy.version).toBe(version)
    expect(policy.refused?.length).toBeGreaterThan(0)
    expect(policy.refused?.join('').length).toBeLessThan(20_000)
  })

  test('any of these files leaves Object.prototype as it was', async () => {
    const { inherited, prototype } = await gateway.probe()
    expect(inherited).toEqual([])
    expect(prototype).toEqual(before.prototype)
  })

  test('the one before is still live after all of them, and can be replaced', async () => {
    const { version } = (await gateway.status()).policy
    gateway.write(JSON.stringify({ ...gateway.policy, enabled: false }))
    await until('it is live', async () => {
      const { policy } = await gateway.status()
      if (policy.version !== version) return true
      throw new Error(`refused: ${policy.refused?.join('\n')}\n${gateway.output().slice(-2_000)}`)
    })
    expect((await gateway.status()).policy.refused).toBeUndefined()
  })
})
