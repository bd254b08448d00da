/** A process that makes bursts of calls, as a test sees it. */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage } from '../support/faults/fork-at.ts'
import { here } from '../support/servers/place.ts'
import type { BurstOrder, BurstResult } from './burst-run.ts'
import type { BurstPlan } from './burst-worker.ts'

export interface BurstProcess {
  readonly pid: number
  run(order: BurstOrder): Promise<BurstResult>
  /** The process also ends by itself if the test is killed. */
  stop(): Promise<void>
}

export function startBurstProcess(plan: BurstPlan): Promise<BurstProcess> {
  return startBurstProgram(join(import.meta.dirname, 'burst-worker.ts'), plan)
}

/** The program calls `serveBursts`; the plan is its argument. */
export async function startBurstProgram(program: string, plan: object): Promise<BurstProcess> {
  const child = forkAt(here, program, plan)
  await nextMessage(child)
  return {
    pid: child.pid ?? 0,
    async run(order) {
      const result = nextMessage(child)
      child.send(order)
      return (await result) as BurstResult
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

/** One burst in a process of its own. */
export async function burstInProcess(plan: BurstPlan, order: BurstOrder): Promise<BurstResult> {
  const started = await startBurstProcess(plan)
  try {
    return await started.run(order)
  } finally {
    await started.stop()
  }
}
