/**
 * The cost of 10,000 overrides and 10,000 blocks for a decision of a server, through its decision
 * API, which is the door with the least work around a decision: up to 100 of them are in a request.
 * The figures are printed. The bound is gross, because other processes share the machine. Processes
 * without entries differ by up to 5 % among themselves, so that there are several of each kind.
 */

import { join } from 'node:path'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { writeDurably } from '../../../packages/server/src/config/durable-file.ts'
import {
  blockKey,
  overrideKey,
  type StoredBlock,
  type StoredOverride,
} from '../../../packages/server/src/control/live/entries.ts'
import { processorMs } from '../../support/processor-time.ts'
import { freePort } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'

const COUNT = 10_000
const PROCESSES = 3
const WARM_ROUNDS = 30
const ROUNDS = 60
const REQUESTS = 12
const CHECKS = 100

/** Far below the cost of a search through all entries. */
const RATIO_MAX = 1.5

interface Server {
  readonly pid: number
  readonly url: string
}

const TOKEN = 'a-token-of-at-least-32-characters'

const limits = [
  { name: 'org', key: 'organisation', otherwise: 'skip', limit: 1e9, per: '1h' },
  { name: 'key', key: 'apiKey', otherwise: 'ip', limit: 1e9, per: '1h' },
]

const origin = { by: 'test', at: '2026-01-01T00:00:00Z', why: 'a test', expires: null }

/** The entries of a file, as local-key-value.ts keeps them: key, value and revision. */
function savedEntries(): (readonly [string, string, string])[] {
  return Array.from({ length: COUNT }, (_, at) => {
    // Half of the clients of this test have an override.
    const key = [`key_${2 * at}`]
    const override: StoredOverride = { limit: 'key', key, set: { limit: 2e9 }, ...origin }
    const address = `10.${at >> 8}.${at & 255}.1`
    const target = at % 4 === 0 ? { kind: 'cidr', value: `${address}/32` } : undefined
    const block = { ...(target ?? { kind: 'ip', value: address }), answer: 403, ...origin }
    return [
      [overrideKey('key', key), JSON.stringify(override), '1'],
      [blockKey(block as StoredBlock), JSON.stringify(block), '1'],
    ] as const
  })
    .flat()
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
}

const bodies = Array.from({ length: 64 }, (_, body) =>
  JSON.stringify({
    checks: Array.from({ length: CHECKS }, (_, check) => {
      const at = body * CHECKS + check
      const identity = { organisation: `org_${at}`, apiKey: `key_${at}` }
      return { request: { method: 'GET', path: '/', ip: `192.0.2.${at % 256}`, identity } }
    }),
  }),
)

test('prints the cost of 10,000 overrides and blocks for a decision', async () => {
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const start = async (name: string, entries: readonly unknown[]) => {
    const [decisionPort, adminPort] = [await freePort(), await freePort()]
    const state = join(folder, name)
    await writeDurably(state, JSON.stringify({ revision: '1', entries }))
    const gateway = await startGatewayProcess({
      policy: {
        limits,
        upstreams: { api: { targets: [backend.url] } },
        decisionApi: { listen: { port: decisionPort }, token: { env: 'TOKEN' } },
        admin: { listen: { port: adminPort }, token: { env: 'TOKEN' }, state },
      },
      environment: { TOKEN },
    })
    onTestFinished(() => gateway.stop().then(() => undefined))
    expect(await countOf(adminPort)).toBe(entries.length)
    return { pid: gateway.child.pid ?? 0, url: `http://127.0.0.1:${decisionPort}/v1/check` }
  }
  const gateways: { readonly hasEntries: boolean; readonly server: Server; totalMs: number }[] = []
  for (let process = 0; process < PROCESSES; process++) {
    for (const hasEntries of [false, true]) {
      const server = await start(`state-${process}-${hasEntries}`, hasEntries ? savedEntries() : [])
      gateways.push({ hasEntries, server, totalMs: 0 })
    }
  }
  const agent = new Agent({ connections: 1 })
  onTestFinished(() => agent.close())
  const measure = async ({ pid, url }: Server) => {
    const beforeMs = processorMs(pid)
    for (let at = 0; at < REQUESTS; at++) await check(url, agent, bodies[at % bodies.length] ?? '')
    return processorMs(pid) - beforeMs
  }
  for (let round = 0; round < WARM_ROUNDS; round++) {
    for (const { server } of gateways) await measure(server)
  }
  for (let round = 0; round < ROUNDS; round++) {
    const order = round % 2 === 0 ? gateways : gateways.toReversed()
    for (const gateway of order) gateway.totalMs += await measure(gateway.server)
  }
  const usOf = (wanted: boolean) =>
    gateways
      .filter(({ hasEntries }) => hasEntries === wanted)
      .map(({ totalMs }) => (totalMs * 1_000) / (ROUNDS * REQUESTS * CHECKS))
  const ratio = sum(usOf(true)) / sum(usOf(false))
  console.info(
    `a decision takes ${textOf(usOf(false))} µs of a server without entries, and with ${COUNT} ` +
      `overrides and ${COUNT} blocks ${textOf(usOf(true))}: ${ratio.toFixed(3)} times that`,
  )
  expect(ratio).toBeLessThan(RATIO_MAX)
})

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function textOf(values: readonly number[]): string {
  return values.map((value) => value.toFixed(1)).join(', ')
}

/** The number of entries that the server obeys. */
async function countOf(adminPort: number): Promise<number> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`, { headers })).text()
  const found = text.matchAll(/^tidegate_(?:overrides|blocks) (\d+)$/gm)
  return sum([...found].map(([, count]) => Number(count)))
}

async function check(url: string, dispatcher: Agent, body: string): Promise<void> {
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
  const response = await request(url, { dispatcher, method: 'POST', headers, body })
  const text = await response.body.text()
  if (response.statusCode !== 200) throw new Error(text)
}
