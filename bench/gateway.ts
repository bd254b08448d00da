/**
 * Requests per second through the gateway with a limit per API key in Redis: against the same
 * gateway without any limit, against Express + http-proxy-middleware + express-rate-limit with its
 * Redis store, and against nginx with `limit_req`, which counts in its own memory. Then refusals
 * against a bare node:http server that answers 200. One process each, the same backend, wrk.
 */

import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../test/servers/ports.ts'
import { startRedis } from '../test/servers/redis.ts'
import { until } from '../test/servers/until.ts'
import { startNginx } from './parts/nginx.ts'
import { type Load, wrk } from './parts/wrk.ts'

const isQuick = process.argv.includes('--quick')
const ROUNDS = isQuick ? 2 : 5
const ROUND_SECONDS = isQuick ? 1 : 3
const CONNECTIONS = 64

if (spawnSync('wrk', ['-v']).error !== undefined) {
  console.error('bench gateway: wrk was not found; install it with: apt-get install wrk')
  process.exit(1)
}

const stops: (() => unknown)[] = []
const folder = mkdtempSync(join(tmpdir(), 'tidegate-bench-'))
stops.push(() => rmSync(folder, { recursive: true, force: true }))

try {
  await run()
} finally {
  for (const stop of stops.reverse()) await stop()
}

async function run(): Promise<void> {
  const redis = await startRedis()
  stops.push(() => redis.stop())
  const backend = await startChild('./parts/http-backend.ts', [])
  const store = { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`] }
  const perKey = { name: 'per-key', key: 'apiKey', otherwise: 'deny', per: '1s' }
  const limited = { store, limits: [{ ...perKey, limit: 1_000_000 }] }
  const exhausted = { store, limits: [{ ...perKey, limit: 1, per: '1h', name: 'used-up' }] }
  const express = ['http://127.0.0.1:'.concat(String(backend)), String(redis.port)]
  const nginx = await startNginx(backend)
  if (nginx === undefined) console.log('nginx is not installed; its row is left out')
  else stops.push(() => nginx.stop())
  const ports = {
    limited: await startGateway('limited', backend, limited),
    unlimited: await startGateway('unlimited', backend, { limits: [] }),
    express: await startChild('./parts/express-gateway.ts', express),
    ...(nginx === undefined ? {} : { nginx: nginx.port }),
    refusing: await startGateway('refusing', backend, exhausted),
    bare: backend,
  }
  console.log(`wrk, ${CONNECTIONS} connections, 1,000 API keys, ${ROUNDS} rounds in turn\n`)
  const results = await measure(ports)
  print(results)
}

async function measure(ports: Readonly<Record<string, number>>): Promise<Map<string, Load[]>> {
  const results = new Map(Object.keys(ports).map((name): [string, Load[]] => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, port] of Object.entries(ports)) {
      const seconds = round === 0 ? 1 : ROUND_SECONDS
      const load = await wrk({ port, seconds, connections: CONNECTIONS })
      if (name !== 'refusing' && load.refused > 0) throw new Error(`${name} refused requests`)
      if (round > 0) results.get(name)?.push(load)
    }
    process.stderr.write(`\rround ${round} of ${ROUNDS}`)
  }
  process.stderr.write('\r                \r')
  return results
}

function print(results: ReadonlyMap<string, readonly Load[]>): void {
  const of = (name: string, figure: keyof Load) =>
    median((results.get(name) ?? []).map((load) => load[figure]))
  console.log('                       requests/s    p50 ms    p99 ms')
  for (const name of results.keys()) {
    const perSecond = Math.round(of(name, 'perSecond')).toLocaleString('en-US')
    const latencies = [of(name, 'p50Ms'), of(name, 'p99Ms')].map((ms) => ms.toFixed(2).padStart(8))
    console.log(`${name.padEnd(20)} ${perSecond.padStart(12)}  ${latencies.join('  ')}`)
  }
  const ratio = (ours: string, peer: string) => of(ours, 'perSecond') / of(peer, 'perSecond')
  const line = (text: string, value: number, aim?: number) => {
    const verdict = aim === undefined ? '' : ` (aim ${aim}: ${value >= aim ? 'met' : 'missed'})`
    console.log(`${text.padEnd(64)} ${value.toFixed(2)}${verdict}`)
  }
  console.log('')
  line(
    'with a limit in Redis, against the same gateway without',
    ratio('limited', 'unlimited'),
    0.8,
  )
  line(
    'against Express + http-proxy-middleware + express-rate-limit',
    ratio('limited', 'express'),
    2.5,
  )
  if (results.has('nginx'))
    line('against nginx limit_req, in its memory', ratio('limited', 'nginx'))
  line('refusals (429), against a bare node:http 200', ratio('refusing', 'bare'), 1)
  for (const figure of ['p50Ms', 'p99Ms'] as const) {
    const addedMs = of('limited', figure) - of('unlimited', figure)
    console.log(`latency that the limit adds at ${figure.slice(0, 3)}: ${addedMs.toFixed(2)} ms`)
  }
}

async function startGateway(name: string, backend: number, policy: object): Promise<number> {
  const port = await freePort()
  const file = join(folder, `${name}.yaml`)
  const document = {
    gateway: { listen: { host: '127.0.0.1', port } },
    upstreams: { backend: { targets: [`http://127.0.0.1:${backend}`] } },
    log: { level: 'error' },
    ...policy,
  }
  writeFileSync(file, JSON.stringify(document))
  const program = new URL('../packages/server/src/main.ts', import.meta.url)
  const child = fork(program, ['gateway', '--config', file], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  stops.push(() => end(child))
  await until(`the gateway ${name} is ready`, async () => {
    const { ok } = await fetch(`http://127.0.0.1:${port}/ready`)
    return ok
  })
  return port
}

async function startChild(program: string, args: readonly string[]): Promise<number> {
  const child = fork(new URL(program, import.meta.url), [...args])
  stops.push(() => end(child))
  const [port] = (await once(child, 'message')) as [number]
  return port
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  child.kill('SIGTERM')
  await once(child, 'exit')
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
