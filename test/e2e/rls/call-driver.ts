/**
 * Calls at a steady rate from a dedicated process, over raw HTTP/2 frames, each with its latency.
 * Calls are sent on schedule, whether or not earlier ones were answered.
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage, singleThreadedGc } from '../../support/faults/fork-at.ts'
import { here } from '../../support/servers/place.ts'

export interface DriverPlan {
  readonly port: number
  readonly connections: number
  readonly callsPerSecond: number
  /** The keys of the descriptors, in turn. */
  readonly keys: readonly DriverKey[]
}

export interface DriverKey {
  readonly key: string
  /** True if every call has a value of its own; else all share one. */
  readonly isSpread: boolean
}

export interface DrivenCall {
  readonly key: string
  /** On the axis of `machineNowMs`, as is the end. */
  readonly startMs: number
  readonly endMs: number
  /** A code such as `OK`, or `status` and the gRPC status; empty without a response. */
  readonly outcome: string
  /** The mark that was set when the call was sent. */
  readonly mark: string
}

export interface CallDriver {
  readonly pid: number
  /** Starts sending; calls carry this mark, which is part of their values. */
  mark(text: string): Promise<void>
  /** Resolves after `calls` calls with the current mark. */
  sent(calls: number): Promise<void>
  /** Stops sending, waits for pending calls, and returns all calls since the last stop. */
  stop(): Promise<readonly DrivenCall[]>
  end(): Promise<void>
}

export type DriverOrder =
  | { readonly name: 'mark'; readonly text: string }
  | { readonly name: 'sent'; readonly calls: number }
  | { readonly name: 'stop' }

export async function startCallDriver(plan: DriverPlan): Promise<CallDriver> {
  const program = join(import.meta.dirname, 'call-driver-worker.ts')
  const child = forkAt(here, program, plan, singleThreadedGc)
  await nextMessage(child)
  const order = (one: DriverOrder) => {
    child.send(one)
    return nextMessage(child)
  }
  return {
    pid: child.pid ?? 0,
    mark: async (text) => void (await order({ name: 'mark', text })),
    sent: async (calls) => void (await order({ name: 'sent', calls })),
    stop: async () => (await order({ name: 'stop' })) as readonly DrivenCall[],
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}
