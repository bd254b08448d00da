/** Starts the processes of the saga, and starts the coordinator again whenever it dies. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export interface Saga {
  /** Sends an order; tries again with the same key while the coordinator is down. */
  order(key: string, body: object, dieAfter?: string): Promise<Response>
  /** How often the coordinator has died. */
  readonly deaths: number
  stop(): Promise<void>
}

/** Tries of one request, for a minute: a coordinator starts slowly on a busy machine. */
const TRIES_MAX = 600
const TRY_PAUSE_MS = 100

export async function startSaga(redisUrl: string): Promise<Saga> {
  const environment: Record<string, string> = { REDIS_URL: redisUrl }
  const names = ['balance', 'orders', 'notifications']
  const services = await Promise.all(names.map((name) => start(name, environment)))
  for (const [at, name] of names.entries()) {
    environment[`${name.toUpperCase()}_URL`] = services[at]?.url ?? ''
  }
  let deaths = 0
  let isStopping = false
  let coordinator = await start('coordinator', environment)
  const watch = () => {
    coordinator.child.once('exit', async () => {
      if (isStopping) return
      deaths += 1
      coordinator = await start('coordinator', environment)
      watch()
    })
  }
  watch()
  return {
    get deaths() {
      return deaths
    },
    order: (key, body, dieAfter) => send(() => coordinator.url, key, body, dieAfter),
    async stop() {
      isStopping = true
      for (const { child } of [...services, coordinator]) await end(child)
    },
  }
}

async function send(url: () => string, key: string, body: object, dieAfter: string | undefined) {
  for (let left = TRIES_MAX; ; left--) {
    // Only the first try is fatal.
    const isFatal = dieAfter !== undefined && left === TRIES_MAX
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'idempotency-key': key,
      ...(isFatal && { 'x-die-after': dieAfter }),
    }
    try {
      return await fetch(url(), { method: 'POST', headers, body: JSON.stringify(body) })
    } catch (error) {
      if (left === 1) throw error
      await new Promise((resolve) => setTimeout(resolve, TRY_PAUSE_MS))
    }
  }
}

async function start(name: string, environment: Readonly<Record<string, string>>) {
  const env = { ...process.env, ...environment }
  const child = fork(join(import.meta.dirname, `${name}.ts`), { env, execArgv: [] })
  const port = await new Promise((resolve, reject) => {
    child.once('message', resolve)
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code} at its start`)))
  })
  return { child, url: `http://127.0.0.1:${port}` }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  if (child.connected) child.disconnect()
  await ended
}
