/**
 * `./run.sh` without a command: the gateway on port 8080 in front of the sample backend on 8081,
 * until Ctrl+C. `PORT`, `BACKEND_PORT` and `BACKEND_URL` override the defaults.
 */

import { once } from 'node:events'
import { portOf, type Running, refuseTaken, startBackend, startGateway } from './processes.ts'

const ownBackend = !process.env.BACKEND_URL

/** A terminal sends Ctrl+C to the children as well; this process only waits for them. */
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop())

const running: Running[] = []
let isStopping = false

try {
  const port = portOf('PORT') ?? 8080
  const backendPort = portOf('BACKEND_PORT') ?? 8081
  await refuseTaken('PORT', port)
  if (ownBackend) await refuseTaken('BACKEND_PORT', backendPort)
  const backend = ownBackend ? { BACKEND_URL: `http://127.0.0.1:${backendPort}` } : {}
  if (ownBackend) running.push(await startBackend(backendPort, 'inherit'))
  running.push(await startGateway(backend, port, 'inherit'))
  console.log(`\nTry: curl -i http://127.0.0.1:${port}/api/resource\nCtrl+C stops.\n`)
  const [first] = await Promise.race(running.map(({ child }) => once(child, 'exit')))
  if (!isStopping) process.exitCode = typeof first === 'number' && first !== 0 ? first : 1
} catch (error) {
  if (!isStopping) {
    console.error(`run.sh: ${(error as Error).message}`)
    process.exitCode = 1
  }
} finally {
  await stop()
}

async function stop(): Promise<void> {
  isStopping = true
  await Promise.all(running.map(({ end }) => end()))
}
