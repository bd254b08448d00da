/**
 * The rate limit service: calls per second on one process and one Redis, against a bare node:http2
 * server that answers the same bytes without doing anything, and against envoyproxy/ratelimit where
 * that is at hand (TIDEGATE_RATELIMIT, or .tools/ratelimit/service_cmd). By h2load with one body,
 * and over 10,000 values with a client of our own. Also what ten descriptors in a call cost.
 */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { message, rateLimitRequest } from '../test/rls/raw-http2.ts'
import { request, rlsClient } from '../test/rls/rls-client.ts'
import { startRedis } from '../test/servers/redis.ts'
import { makeFolder, removeFolder } from '../test/servers/server-process.ts'
import { compare } from './parts/compare.ts'
import { CONNECTIONS, h2load, hasH2load, IN_FLIGHT, valuesLoad } from './parts/rls-load.ts'
import {
  type Service,
  startBare,
  startOurs,
  startReference,
  untilCounting,
  writeConfig,
} from './parts/rls-processes.ts'

const SECONDS = Number(process.env.SECONDS ?? 2)
const ROUNDS = Number(process.env.ROUNDS ?? 5)
const VALUES = 10_000
const CALLS = 2_000

const folder = makeFolder()
const bodyFile = join(folder, 'body')
writeFileSync(bodyFile, message(rateLimitRequest('bench', 'tenant', 't0')))
const redis = await startRedis()
const address = `${redis.host}:${redis.port}`
const directory = writeConfig(folder)
const ours = await startOurs(directory, address, 'own')
const node = await startOurs(directory, address, 'node')
const bare = await startBare()
const reference = await startReference(folder, address)
await untilCounting(ours)
await untilCounting(node)

try {
  await measure()
} finally {
  for (const service of [ours, node, bare, reference]) service?.stop()
  await redis.stop()
  removeFolder(folder)
}

async function measure(): Promise<void> {
  console.log(`${CONNECTIONS} connections with ${IN_FLIGHT} calls in flight each\n`)
  if (hasH2load()) {
    const load = ({ port }: Service) => h2load(port, bodyFile, SECONDS)
    await against('one value, by h2load', load)
  } else console.log('h2load is not installed (apt-get install nghttp2-client): skipped\n')
  await against(`${VALUES} values`, ({ port }) => valuesLoad(port, VALUES, SECONDS))
  await descriptors()
}

async function against(title: string, load: (service: Service) => Promise<number>): Promise<void> {
  const contender = (service: Service) => ({ name: service.name, run: () => load(service) })
  const rounds = ROUNDS
  const isOne = title.startsWith('one')
  const bareAim = isOne ? { ratioMin: 2 } : undefined
  await compare({ title, ours: contender(ours), peer: contender(bare), rounds, ...bareAim })
  await compare({ title, ours: contender(node), peer: contender(bare), rounds })
  if (reference === undefined) {
    console.log('envoyproxy/ratelimit is not installed: skipped\n')
    return
  }
  const peer = contender(reference)
  await compare({ title, ours: contender(ours), peer, rounds, ...(isOne && { ratioMin: 4 }) })
  await compare({ title, ours: peer, peer: contender(bare), rounds })
}

/** Calls one after the other, with one descriptor and with ten, in turn. */
async function descriptors(): Promise<void> {
  const client = rlsClient(ours.port)
  const timesMs: [number[], number[]] = [[], []]
  for (let call = 0; call < CALLS; call++) {
    for (const [at, count] of [1, 10].entries()) {
      const keys = Array.from({ length: count }, (_, own) => [`tenant=c${call}-${own}`])
      const startMs = performance.now()
      await client.ask(request('bench', ...keys))
      timesMs[at]?.push(performance.now() - startMs)
    }
  }
  client.close()
  const [one, ten] = timesMs.map((all) => all.sort((a, b) => a - b)[all.length >> 1] ?? 0)
  const ratio = (ten ?? 0) / (one ?? 1)
  const verdict = ratio <= 2 ? 'met' : 'missed'
  console.log('ten descriptors in a call, new values each time')
  console.log(`  one ${one?.toFixed(3)} ms, ten ${ten?.toFixed(3)} ms (medians)`)
  console.log(`  ratio ${ratio.toFixed(2)}, aim at most 2: ${verdict}`)
}
