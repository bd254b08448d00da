/** A service of a peer in a process of its own; it must count correctly before it is measured. */

import { ServerProcess } from '../../test/support/servers/server-process.ts'
import type { Run } from '../harness/part.ts'

export interface PeerStart {
  readonly program: string
  readonly args?: readonly string[]
  readonly settings: Readonly<Record<string, string>>
  readonly folder: string
  /** Rejects if the service does not count. */
  untilCounting(): Promise<void>
}

/** Starts the service. It ends with the part, or immediately if it does not count. */
export async function startPeer(run: Pick<Run, 'onStop'>, start: PeerStart): Promise<void> {
  const { program, args = [], settings, folder } = start
  const variables = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  const running = new ServerProcess('env', [...variables, program, ...args], folder)
  run.onStop(() => running.end())
  try {
    await start.untilCounting()
  } catch (error) {
    await running.end()
    throw new Error(`${String(error)}\n${running.output}`, { cause: error })
  }
}
