/**
 * Files that are written where the policy of a running gateway is: each is refused, the one before
 * stays live, and requests go on meanwhile.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { YAML_BYTES_MAX } from '../../packages/server/src/policy/yaml-text.ts'
import { sendRaw } from '../gateway/raw-client.ts'
import { until } from '../servers/until.ts'
import { type ProbeAnswer, type ProbedGateway, startProbedGateway } from './probed-gateway.ts'
import { echo, startRecordingUpstream } from './recording-upstream.ts'

const stops: (() => unknown)[] = []
let gateway: ProbedGateway
let before: ProbeAnswer
/** The longest that a request is held up by a large and honest policy with one mistake. */
let usualMs: number

beforeAll(async () => {
  const atEnd = (stop: () => unknown) => void stops.push(stop)
  const upstream = await startRecordingUpstream(echo, atEnd)
  const policy = {
    upstreams: { api: { targets: [upstream.url] } },
    limits: [{ name: 'all', key: 'ip', limit: 1_000_000, per: '1h' }],
  }
  gateway = await startProbedGateway(policy, { atEnd })
  before = await gateway.probe()
  const limit = (at: number) => `  - { name: l${at}, key: ip, limit: 1, per: 1s, within: nothing }`
  usualMs = (await refuseWhileAsking(`limits:\n${many(250, limit)}\n`)).longestMs
})

afterAll(async () => {
  for (const stop of stops.reverse()) await stop()
})

/** As long as a policy may be. */
const filled = (unit: string) => unit.repeat(YAML_BYTES_MAX / unit.length)

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

const files: readonly (readonly [name: string, text: string])[] = [
  ['a billion laughs', laughs],
  ['merge keys of merge keys', merges],
  ['open brackets', filled('[')],
  ['many names', many(29_000, (at) => `k${at}: 1`)],
  ['wrong escapes', `"${filled('\\x')}`.slice(0, YAML_BYTES_MAX)],
  ['commas', `[${filled(',')}`.slice(0, YAML_BYTES_MAX)],
  ['100,000 limits', `limits: [${filled('{},')}]`.slice(0, YAML_BYTES_MAX - 1)],
  ['patterns of stars', `limits: [{ name: a, match: { path: "/${'**/'.repeat(60_000)}" } }]`],
  ['__proto__', '__proto__: { polluted: yes, enabled: false }'],
  ['__proto__ as an escape', '"\\x5f_proto__": { polluted: yes }'],
  ['__proto__ deeper down', 'gateway: { timeouts: { __proto__: { polluted: yes } } }'],
  ['a tag that runs code', 'a: !!js/function "function () { return process.exit() }"'],
]

const get = 'GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n'

/** Writes it and asks until it is refused; how often it was answered, and the longest it took. */
async function refuseWhileAsking(text: string) {
  const marks = () => gateway.output().split('"event":"policy.refused"').length
  const count = marks()
  gateway.write(text)
  let [answers, longestMs] = [0, 0]
  await until('it is refused', async () => {
    const startMs = performance.now()
    const answer = await sendRaw(gateway.port, get)
    longestMs = Math.max(longestMs, performance.now() - startMs)
    if (!answer.startsWith('HTTP/1.1 200')) throw new Error(answer)
    answers += 1
    return marks() > count
  })
  return { answers, longestMs }
}

describe('a policy file of', () => {
  test.each(files)('%s is refused, and requests go on', async (_name, text) => {
    const { version } = (await gateway.status()).policy
    const { answers, longestMs } = await refuseWhileAsking(text)
    expect(answers).toBeGreaterThan(1)
    // A busy machine holds anybody up now and then; a bomb would take seconds.
    expect(longestMs).toBeLessThan(usualMs * 5 + 500)
    const { policy } = await gateway.status()
    expect(policy.version).toBe(version)
    expect(policy.refused?.length).toBeGreaterThan(0)
    expect(policy.refused?.join('').length).toBeLessThan(20_000)
  })

  test('any of these kinds leaves Object.prototype as it was', async () => {
    const { inherited, prototype } = await gateway.probe()
    expect(inherited).toEqual([])
    expect(prototype).toEqual(before.prototype)
  })

  test('the one before is still live after all of them, and can be replaced', async () => {
    const { version } = (await gateway.status()).policy
    gateway.write(JSON.stringify({ ...gateway.policy, enabled: false }))
    await until('it is live', async () => (await gateway.status()).policy.version !== version)
    expect((await gateway.status()).policy.refused).toBeUndefined()
  })
})
