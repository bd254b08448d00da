/**
 * Ten connections that open and reset streams as fast as they can cost other clients little: their
 * median is at most twice that without the attack, and some noise. All of it shares the cores of
 * this machine, so the longest time is printed only: a stall of the machine is longer.
 */

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, connect } from 'node:http2'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { makeTls } from '../security/frame-client.ts'
import { startProbedGateway } from '../security/probed-gateway.ts'
import { echo, startRecordingUpstream } from '../security/recording-upstream.ts'

const CONNECTIONS = 10
const MEASURED_MS = 8_000

/** The attackers take one of two cores, and other processes the rest; the host may stall both. */
const NOISE_MS = 50

function ask(session: ClientHttp2Session): Promise<number> {
  const startMs = performance.now()
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':path': '/health' })
    stream.on('end', () => resolve(performance.now() - startMs)).on('error', reject)
    stream.resume()
  })
}

async function measure(session: ClientHttp2Session) {
  const times: number[] = []
  const endMs = performance.now() + MEASURED_MS
  while (performance.now() < endMs) {
    times.push(await ask(session))
    await sleep(5)
  }
  times.sort((one, other) => one - other)
  return { medianMs: times[times.length >> 1] ?? 0, longestMs: times.at(-1) ?? 0 }
}

test('ten connections of rapid resets at most double the median of others', async () => {
  const { tls } = makeTls()
  const upstream = await startRecordingUpstream(echo)
  const gateway = await startProbedGateway({
    gateway: { tls },
    upstreams: { api: { targets: [upstream.url] } },
    limits: [],
  })
  const session = connect(gateway.url.replace('http', 'https'), { ca: readFileSync(tls.cert) })
  session.on('error', () => undefined)
  onTestFinished(() => session.destroy())
  await measure(session)
  const idle = await measure(session)
  const program = join(import.meta.dirname, 'rapid-reset-worker.ts')
  const options = ['--disable-warning=ExperimentalWarning', program]
  const place = [String(gateway.port), String(CONNECTIONS), '127.0.0.2']
  const attackers = spawn(process.execPath, [...options, ...place], { stdio: 'inherit' })
  onTestFinished(() => void attackers.kill('SIGKILL'))
  const attacked = await measure(session)
  console.info('without and with ten connections of rapid resets:', idle, attacked)
  expect(attackers.exitCode).toBe(null)
  expect(attacked.medianMs).toBeLessThan(2 * idle.medianMs + NOISE_MS)
})
