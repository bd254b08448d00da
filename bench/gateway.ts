/**
 * Requests per second through the gateway with a limit per API key in Redis, and refusals per
 * second. nginx and HAProxy run one worker like all others, but count in their own memory.
 */

import { startRedis } from '../test/support/servers/redis.ts'
import { makeFolder, removeFolder } from '../test/support/servers/server-process.ts'
import { setCoreAside } from './harness/cores.ts'
import { packageVersion, programVersion } from './harness/machine.ts'
import type { Comparison, Part, Run } from './harness/part.ts'
import { median, takeTurns } from './harness/rounds.ts'
import { startHaproxy } from './parts/gateway/haproxy.ts'
import { startNginx } from './parts/gateway/nginx.ts'
import {
  startBackend,
  startBareServer,
  startExpress,
  startTidegate,
} from './parts/gateway/processes.ts'
import type { PeerProxy } from './parts/gateway/proxy.ts'
import { KEYS, type Load, writeScript, wrk } from './parts/load/wrk.ts'

const CONNECTIONS = 64

/** wrk takes whole seconds only. */
const QUICK = { rounds: 1, seconds: 1 }
const FULL = { rounds: 5, seconds: 2 }

export const part: Part = {
  name: 'gateway',
  title: 'The gateway',
  compares:
    'A reverse proxy with a limit per API key, over 1,000 keys, before the same backend: ours ' +
    'and what others put together. One process with one thread each, on a core of its own; wrk ' +
    'with 64 connections, the backend and Redis share the others.',
  async run(run) {
    const version = programVersion('wrk', ['-v'])
    if (version === undefined) {
      run.skipped('the gateway: wrk is not installed (apt-get install wrk)')
      return
    }
    run.uses('wrk', version)
    run.progress('the gateways start')
    const gateways = await startGateways(run)
    for (const gateway of gateways) await verify(gateway)
    const loads = await measure(run, gateways)
    report(run, gateways, loads)
    compare(run, loads)
  },
}

const TIDEGATE = 'Tidegate'
const UNLIMITED = 'Tidegate without a limit'
const EXPRESS = 'Express, http-proxy-middleware, express-rate-limit'
const NGINX = 'nginx, limit_req'
const HAPROXY = 'HAProxy, stick table'
const BARE = 'bare node:http, which answers 200'
const refusing = (name: string) => `${name}, refusing`

interface Gateway {
  readonly name: string
  readonly port: number
  readonly isOurs: boolean
  readonly kind: 'proxied' | 'refused' | 'bare'
  /** A header that only counted responses have. */
  readonly sign?: string
}

async function startGateways(run: Run): Promise<Gateway[]> {
  const core = setCoreAside(run)
  const redis = await startRedis()
  run.onStop(() => redis.stop())
  const backend = await startBackend(run)
  // On a busy machine a late answer would admit without counting, which is faster.
  const store = { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`], deadline: '1s' }
  const perKey = { name: 'per-key', key: 'apiKey', otherwise: 'deny', per: '1s', limit: 1_000_000 }
  const usedUp = { ...perKey, name: 'used-up', per: '1h', limit: 1 }
  const start = (policy: object) => startTidegate(run, backend, policy, core)
  const [limited, unlimited, used, express, nginx, haproxy, bare] = await Promise.all([
    start({ store, limits: [perKey] }),
    start({ limits: [] }),
    start({ store, limits: [usedUp] }),
    startExpress(run, backend, redis.port, core),
    startPeer(run, NGINX, 'nginx', () => startNginx(backend, core)),
    startPeer(run, HAPROXY, 'haproxy', () => startHaproxy(backend, core)),
    startBareServer(run, core),
  ])
  for (const name of ['express', 'http-proxy-middleware', 'express-rate-limit'])
    run.uses(name, packageVersion(name) ?? 'unknown')
  const sign = 'ratelimit'
  return [
    { isOurs: true, kind: 'proxied', name: TIDEGATE, port: limited, sign },
    { isOurs: true, kind: 'proxied', name: UNLIMITED, port: unlimited },
    { isOurs: false, kind: 'proxied', name: EXPRESS, port: express, sign },
    { isOurs: true, kind: 'refused', name: refusing(TIDEGATE), port: used, sign },
    ...nginx,
    ...haproxy,
    { isOurs: false, kind: 'bare', name: BARE, port: bare },
  ]
}

async function startPeer(
  run: Run,
  name: string,
  program: string,
  start: () => Promise<PeerProxy>,
): Promise<Gateway[]> {
  const version = programVersion(program, ['-v'])
  if (version === undefined) {
    run.skipped(`${name}: not installed (apt-get install ${program})`)
    return []
  }
  run.uses(program, version)
  const { port, refusingPort, stop } = await start()
  run.onStop(stop)
  return [
    { name, port, isOurs: false, kind: 'proxied' },
    { name: refusing(name), port: refusingPort, isOurs: false, kind: 'refused' },
  ]
}

/** Checks the response to a key's second request before speed is measured. */
async function verify({ name, port, kind, sign }: Gateway): Promise<void> {
  const ask = async () => {
    const headers = { 'x-api-key': 'key-of-nobody' }
    const response = await fetch(`http://127.0.0.1:${port}/api/resource`, { headers })
    return { response, text: await response.text() }
  }
  await ask()
  const { response, text } = await ask()
  const status = kind === 'refused' ? 429 : 200
  const isRight = response.status === status && (status === 429 || text.includes('sample resource'))
  if (!isRight) throw new Error(`${name} answered ${response.status}: ${text}`)
  if (sign !== undefined && !response.headers.has(sign)) throw new Error(`${name} does not count`)
}

async function measure(run: Run, gateways: readonly Gateway[]): Promise<Map<string, Load[]>> {
  const folder = makeFolder()
  run.onStop(() => removeFolder(folder))
  const scriptFile = writeScript(folder)
  const { rounds, seconds } = run.isQuick ? QUICK : FULL
  const load = ({ port }: Gateway, seconds: number, connections = CONNECTIONS) =>
    wrk({ port, seconds, connections, scriptFile })
  // All at once takes less time, and is enough for V8 to compile the code.
  if (run.isQuick) await Promise.all(gateways.map((gateway) => load(gateway, 2, 8)))
  const contenders = gateways.map((gateway) => ({
    name: gateway.name,
    run: async () => verified(gateway, await load(gateway, seconds)),
    warmUp: async () => run.isQuick || load(gateway, 1),
  }))
  return takeTurns(run, 'gateway', contenders, rounds)
}

/** A round admits a key at most once; nginx, which refills every minute, at most twice. */
function verified({ name, kind }: Gateway, load: Load): Load {
  const admitted = load.requests - load.refused
  const isRight = kind === 'refused' ? admitted <= 2 * KEYS : load.refused === 0
  if (!isRight) throw new Error(`${name} refused ${load.refused} of ${load.requests}`)
  return load
}

function report(
  run: Run,
  gateways: readonly Gateway[],
  loads: ReadonlyMap<string, readonly Load[]>,
): void {
  const of = (name: string, figure: keyof Load) =>
    median((loads.get(name) ?? []).map((load) => load[figure]))
  const figures = ['perSecond', 'p50Ms', 'p99Ms'] as const
  const columns = [
    { name: 'requests/s' },
    { name: 'p50 ms', digits: 2 },
    { name: 'p99 ms', digits: 2 },
  ]
  const rows = (ofThese: (gateway: Gateway) => boolean) =>
    gateways.filter(ofThese).map(({ name, isOurs }) => {
      return { name, isOurs, cells: figures.map((figure) => of(name, figure)) }
    })
  const proxied = rows(({ kind }) => kind === 'proxied')
  run.table({ name: 'gateway', title: 'Admitted and passed on', columns, rows: proxied })
  const refused = rows(({ kind }) => kind !== 'proxied')
  run.table({ name: 'gateway-refusals', title: 'Refused with 429', columns, rows: refused })
  const names = [TIDEGATE, UNLIMITED, EXPRESS, NGINX, HAPROXY, BARE]
  const series = names.map((name) => {
    const at = { admitted: name, refused: name === BARE ? name : refusing(name) }
    const points = Object.entries(at)
      .filter(([x, name]) => loads.has(name) && !(x === 'admitted' && name === BARE))
      .map(([x, name]) => ({ x, y: of(name, 'perSecond') }))
    return { name, isOurs: name === TIDEGATE || name === UNLIMITED, points }
  })
  run.chart({
    name: 'gateway',
    title: 'Requests per second through a gateway with a limit per API key',
    kind: 'bars',
    xLabel: '',
    yLabel: 'Tidegate and express-rate-limit count in Redis, nginx and HAProxy in their memory',
    series: series.filter(({ points }) => points.length > 0),
  })
}

const memoryReason =
  'nginx and HAProxy are written in C and count in their own memory: they do not call Redis, and ' +
  'two of them do not share a limit.'

const comparisons: readonly (Pick<Comparison, 'name' | 'what' | 'ours' | 'peer'> &
  Partial<Comparison>)[] = [
  {
    name: 'gateway-limit',
    what: 'what a limit costs',
    ours: TIDEGATE,
    peer: UNLIMITED,
    aim: 0.8,
    reason: 'With a limit, Redis works too, on the core that the load and the backend share.',
  },
  { name: 'gateway-express', what: 'admitted', ours: TIDEGATE, peer: EXPRESS, aim: 2.5 },
  {
    name: 'gateway-nginx',
    what: 'admitted',
    ours: TIDEGATE,
    peer: NGINX,
    reason: memoryReason,
  },
  {
    name: 'gateway-haproxy',
    what: 'admitted',
    ours: TIDEGATE,
    peer: HAPROXY,
    reason: memoryReason,
  },
  {
    name: 'gateway-refusals',
    what: 'refused',
    ours: refusing(TIDEGATE),
    peer: BARE,
    aim: 1,
    reason: 'A refusal is made for its key, with times and a body; the bare server repeats itself.',
  },
  {
    name: 'gateway-refusals-nginx',
    what: 'refused',
    ours: refusing(TIDEGATE),
    peer: refusing(NGINX),
    reason: memoryReason,
  },
  {
    name: 'gateway-refusals-haproxy',
    what: 'refused',
    ours: refusing(TIDEGATE),
    peer: refusing(HAPROXY),
    reason: memoryReason,
  },
]

function compare(run: Run, loads: ReadonlyMap<string, readonly Load[]>): void {
  for (const comparison of comparisons) {
    const [ours, peers] = [loads.get(comparison.ours), loads.get(comparison.peer)]
    if (ours === undefined || peers === undefined) continue
    const rounds = ours.map(({ perSecond }, at) => {
      return { ours: perSecond, peer: peers[at]?.perSecond ?? Number.NaN }
    })
    run.compared({ unit: 'requests per second', ...comparison, rounds })
  }
}
