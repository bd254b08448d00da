/**
 * Calls at a steady pace from a process that does nothing else, over HTTP/2 frames of its own, each
 * with the time that its answer took. A call is sent when its turn has come, whether or not those
 * before it were answered.
 */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage } from '../faults/fork-at.ts'
import { here } from '../servers/place.ts'

export interface DriverPlan {
  readonly port: number
  readonly connections: number
  readonly callsPerSecond: number
  /** The keys of the descriptors, in turn. */
  readonly keys: readonly DriverKey[]
}

export interface DriverKey {
  readonly key: string
  /** Whether every call has a value of its own; else all of them have the same. */
  readonly isSpread: boolean
}

export interface DrivenCall {
  readonly key: string
  /** On the axis of `machineNowMs`, as is the end. */
  readonly startMs: number
  readonly endMs: number
  /** A code such as `OK`, or `status` and the number of the gRPC status; empty without answer. */
  readonly outcome: string
  /** Of the time when it was sent, as `mark` set it. */
  readonly mark: string
}

export interface CallDriver {
  readonly pid: number
  /** Begins to send; calls carry this mark, and it is part of their values. */
  mark(text: string): Promise<void>
  /** Resolves when so many calls with the present mark were sent. */
  sent(calls: number): Promise<void>
  /** Sends no more, waits for what is under way, and tells of everything since the last time. */
  stop(): Promise<readonly DrivenCall[]>
  end(): Promise<void>
}

export type DriverOrder =
  | { readonly name: 'mark'; readonly text: string }
  | { readonly name: 'sent'; readonly calls: number }
  | { readonly name: 'stop' }

export async function startCallDriver(plan: DriverPlan): Promise<CallDriver> {
  const child = forkAt(here, join(import.meta.dirname, 'call-driver-worker.ts'), plan)
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
