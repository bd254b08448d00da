/** Four processes that send a burst together, and the number of admitted requests. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

export const PROCESSES = 4
export const REQUESTS = 1_000
export const LIMIT = 100

/** A day, so that no window ends and no unit is refilled during a burst. */
export const PERIOD_S = 86_400

export const contenderNames = [
  'Tidegate, tokenBucket',
  'Tidegate, slidingWindow',
  'Tidegate, slidingLog',
  'Tidegate, fixedWindow',
  'rate-limiter-flexible, Redis',
  'express-rate-limit, rate-limit-redis',
  '@fastify/rate-limit, Redis',
  'GET, then INCR',
  'Tidegate, memory',
  'rate-limiter-flexible, memory',
  'express-rate-limit, MemoryStore',
  '@fastify/rate-limit, LocalStore',
] as const

export type ContenderName = (typeof contenderNames)[number]

export interface Burst {
  readonly contender: ContenderName
  readonly key: string
  /** Requests of each process. */
  readonly requests: number
  /** On the machine's clock, which all processes share. */
  readonly startAtMs: number
}

export interface BurstProcesses {
  /** How many of a burst of 1,000 were admitted. */
  burst(contender: ContenderName, key: string): Promise<number>
  stop(): Promise<void>
}

/** Long enough for the message to reach all processes. */
const START_IN_MS = 15

export async function startBurstProcesses(url: string): Promise<BurstProcesses> {
  const program = join(import.meta.dirname, 'worker.ts')
  const start = () => fork(program, [url], { execArgv: [] })
  const children = Array.from({ length: PROCESSES }, start)
  await Promise.all(children.map(answerOf))
  return {
    async burst(contender, key) {
      const answers = children.map(answerOf)
      const startAtMs = Date.now() + START_IN_MS
      const burst: Burst = { contender, key, requests: REQUESTS / PROCESSES, startAtMs }
      for (const child of children) child.send(burst)
      const admitted = (await Promise.all(answers)) as number[]
      return admitted.reduce((sum, count) => sum + count, 0)
    },
    async stop() {
      const ended = children.map((child) => child.exitCode === null && once(child, 'exit'))
      for (const child of children) if (child.connected) child.disconnect()
      await Promise.all(ended)
    },
  }
}

function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number) => reject(new Error(`admission-worker.ts ended with ${code}`))
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message)
    })
  })
}
