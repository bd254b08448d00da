/** Limiters in processes of their own, which differ in how they are observed. */

import { once } from 'node:events'
import { forkReady } from '../../harness/child.ts'
import type { Run } from '../../harness/part.ts'
import type { Contender } from '../../harness/rounds.ts'
import { average, type Cost } from './overhead.ts'

export interface LimiterSettings {
  /** In memory without it. */
  readonly redisUrl?: string
  readonly meter?: 'metrics' | 'traces'
  /** The share of calls whose active span is sampled; without it, no call has an active span. */
  readonly sampled?: number
  /** Where spans are sent. */
  readonly sinkUrl?: string
}

/** Compiled code differs by chance from process to process. */
const PROCESSES = 2

export async function limiterContender(
  run: Run,
  name: string,
  settings: LimiterSettings,
  calls: number,
): Promise<Contender<Cost>> {
  const program = new URL('limiter-process.ts', import.meta.url)
  const processes = await Promise.all(
    Array.from({ length: PROCESSES }, async () => {
      const { child } = await forkReady(run, program, [JSON.stringify(settings)])
      return async () => {
        const answered = once(child, 'message')
        child.send(calls)
        const [cost] = (await answered) as [Cost]
        return cost
      }
    }),
  )
  return average(name, processes)
}
