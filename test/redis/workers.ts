/** Starts several processes that share limits. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Round, RoundResult, WorkerPlan } from './worker.ts'

export interface Workers {
  /** Runs one round in all processes at the same time, and returns the sum of their results. */
  run(round: Round): Promise<RoundResult>
  /** The processes also end when their parent disconnects, for example if a test is killed. */
  stop(): Promise<void>
}

const program = join(import.meta.dirname, 'worker.ts')

export async function startWorkers(plans: readonly WorkerPlan[]): Promise<Workers> {
  const children = plans.map((plan) => fork(program, [JSON.stringify(plan)], { execArgv: [] }))
  await Promise.all(children.map(nextMessage))
  return {
    async run(round) {
      const answers = children.map(nextMessage)
      for (const child of children) child.send(round)
      const results = (await Promise.all(answers)) as RoundResult[]
      return {
        admitted: results.reduce((sum, { admitted }) => sum + admitted, 0),
        failures: results.flatMap(({ failures }) => failures),
      }
    },
    async stop() {
      const ended = children.map((child) => child.exitCode === null && once(child, 'exit'))
      for (const child of children) if (child.connected) child.disconnect()
      await Promise.all(ended)
    },
  }
}

/** Rejects if the process ends instead. */
function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`a worker ended with ${code}`))
    child.once('exit', ended)
    child.once('message', (message) => {
      child.off('exit', ended)
      resolve(message)
    })
  })
}
