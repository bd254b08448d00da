/** A proxy of a peer as one process with a folder of its own, ended by its process id. */

import {
  makeFolder,
  removeFolder,
  ServerProcess,
} from '../../../test/support/servers/server-process.ts'
import { until } from '../../../test/support/servers/until.ts'
import type { CoreOfItsOwn } from '../../harness/cores.ts'

export interface PeerProxy {
  readonly port: number
  /** The port on which nearly every request is refused with 429. */
  readonly refusingPort: number
  stop(): Promise<void>
}

/** Starts the program. `configure` writes its files into the folder and returns its arguments. */
export async function startProxy(
  program: string,
  ports: Pick<PeerProxy, 'port' | 'refusingPort'>,
  core: CoreOfItsOwn,
  configure: (folder: string) => readonly string[],
): Promise<PeerProxy> {
  const folder = makeFolder()
  const [command = '', ...args] = [...core, program, ...configure(folder)]
  const running = new ServerProcess(command, args, folder)
  const stop = async () => {
    await running.end()
    removeFolder(folder)
  }
  const state = await until(`${program} answers`, async () => {
    if (running.hasEnded) return 'ended'
    return (await fetch(`http://127.0.0.1:${ports.port}/`)).ok && 'ready'
  })
  if (state === 'ready') return { ...ports, stop }
  await stop()
  throw new Error(`${program} ended at its start:\n${running.output}`)
}
