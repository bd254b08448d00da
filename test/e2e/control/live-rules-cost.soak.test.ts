/**
 * The cost of 10,000 overrides and 10,000 blocks for a decision of a server, through its decision
 * API: with one decision in a request, as most clients ask, and with 100, where there is the least
 * work around each. The figures are printed. The bound is gross, because other processes share the
 * machine.
 *
 * Processes without entries differ by up to 5 % among themselves, so that there are several of each
 * kind. A second group without entries shows the noise of a run.
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
import { threadsMs } from '../../support/processor-time.ts'
import { freePort } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'

const COUNT = 10_000
const PROCESSES = 3
const KEYS = 6_400

interface Load {
  /** Decisions in a request. */
  readonly checks: number
  readonly warmRounds: number
  readonly rounds: number
  /** In a round of one server. */
  readonly requests: number
}

const loads: readonly Load[] = [
  { checks: 1, warmRounds: 20, rounds: 40, requests: 300 },
  { checks: 100, warmRounds: 60, rounds: 100, requests: 12 },
]

/**
 * The aim is 1.05. With one decision in a request, 170 µs took 1.01 to 1.03 times as long in a run
 * on a quiet machine, of which less than 0.01 are the look-ups. With 100, the aim is often missed:
 * in four runs, a decision of 9 to 11 µs took 0 to 13 % longer for keys without an entry, and 3 to
 * 14 % for keys with an override. The two groups without entries differed by 0 to 4 %. The bound is
 * far below the cost of a search through all entries.
 */
const RATIO_MAX = 1.5

/** Which keys the overrides of a server have. `again` has none, like the first. */
const kinds = ['none', 'again', 'other keys', 'these keys'] as const

type Kind = (typeof kinds)[number]

interface Server {
  readonly kind: Kind
  readonly pid: number
  readonly url: string
  totalMs: number
  requests: number
}

const TOKEN = 'a-token-of-at-least-32-characters'

const limits = [
  { name: 'org', key: 'organisation', otherwise: 'skip', limit: 1e9, per: '1h' },
  { name: 'key', key: 'apiKey', otherwise: 'ip', limit: 1e9, per: '1h' },
]

const origin = { by: 'test', at: '2026-01-01T00:00:00Z', why: 'a test', expires: null }

/** The entries of a file, as local-key-value.ts keeps them: key, value and revision. */
function savedEntries(kind: Kind): (readonly [string, string, string])[] {
  if (kind === 'none' || kind === 'again') return []
  return Array.from({ length: COUNT }, (_, at) => {
    const key = [`${kind === 'these keys' ? 'key' : 'any'}_${at}`]
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

test.each(loads)(
  'prints the cost of 10,000 overrides and blocks, $checks a request',
  async (load) => {
    const backend = await startBackend()
    onTestFinished(() => backend.stop())
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const servers: Server[] = []
    for (let process = 0; process < PROCESSES; process++) {
      for (const kind of kinds) {
        servers.push(await startServer(kind, join(folder, `${kind} ${process}`), backend.url))
      }
    }
    const agent = new Agent({ connections: 1 })
    onTestFinished(() => agent.close())
    const bodies = bodiesOf(load)
    const run = (server: Server) => measure(server, agent, bodies, load.requests)
    for (let round = 0; round < load.warmRounds; round++) {
      for (const server of servers) await run(server)
    }
    for (let round = 0; round < load.rounds; round++) {
      for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
        server.totalMs += await run(server)
      }
    }
    const usOf = (wanted: Kind) =>
      servers
        .filter(({ kind }) => kind === wanted)
        .map(({ totalMs }) => (totalMs * 1_000) / (load.rounds * load.requests * load.checks))
    const ratioOf = (kind: Kind) => sum(usOf(kind)) / sum(usOf('none'))
    console.info(`a decision takes ${textOf(usOf('none'))} µs of a server without entries`)
    for (const kind of kinds.slice(1)) {
      const which = kind === 'again' ? 'none again' : `${COUNT} blocks, and overrides of ${kind}`
      console.info(`  ${which}: ${textOf(usOf(kind))} µs, ${ratioOf(kind).toFixed(3)} times that`)
    }
    expect(ratioOf('other keys')).toBeLessThan(RATIO_MAX)
    expect(ratioOf('these keys')).toBeLessThan(RATIO_MAX)
  },
)

function bodiesOf({ checks }: Load): readonly string[] {
  return Array.from({ length: KEYS / checks }, (_, body) =>
    JSON.stringify({
      checks: Array.from({ length: checks }, (_, check) => {
        const at = body * checks + check
        const identity = { organisation: `org_${at}`, apiKey: `key_${at}` }
        return { request: { method: 'GET', path: '/', ip: `192.0.2.${at % 256}`, identity } }
      }),
    }),
  )
}

async function startServer(kind: Kind, state: string, upstream: string): Promise<Server> {
  const entries = savedEntries(kind)
  const [decisionPort, adminPort] = [await freePort(), await freePort()]
  await writeDurably(state, JSON.stringify({ revision: '1', entries }))
  const gateway = await startGatewayProcess({
    policy: {
      limits,
      upstreams: { api: { targets: [upstream] } },
      decisionApi: { listen: { port: decisionPort }, token: { env: 'TOKEN' } },
      admin: { listen: { port: adminPort }, token: { env: 'TOKEN' }, state },
    },
    environment: { TOKEN },
  })
  onTestFinished(() => gateway.stop().then(() => undefined))
  expect(await countOf(adminPort)).toBe(entries.length)
  const url = `http://127.0.0.1:${decisionPort}/v1/check`
  return { kind, pid: gateway.child.pid ?? 0, url, totalMs: 0, requests: 0 }
}

/** Returns the processor time of a few requests. They go through all keys in turn. */
async function measure(
  server: Server,
  agent: Agent,
  bodies: readonly string[],
  requests: number,
): Promise<number> {
  const { pid, url } = server
  const beforeMs = threadsMs(pid)
  for (let request = 0; request < requests; request++) {
    await check(url, agent, bodies[server.requests % bodies.length] ?? '')
    server.requests += 1
  }
  return threadsMs(pid) - beforeMs
}

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
