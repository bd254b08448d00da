/** A process of a part. It is ready after its first message, and ends with the part. */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import type { Run } from './part.ts'

export interface ReadyChild<Message> {
  readonly child: ChildProcess
  /** Its first message, such as its port. */
  readonly said: Message
  stop(): Promise<void>
}

/** Rejects if the process ends before it sends a message. */
export async function forkReady<Message>(
  run: Pick<Run, 'onStop'>,
  program: URL,
  args: readonly string[],
): Promise<ReadyChild<Message>> {
  const child = fork(program, [...args])
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill()
    await ended
  }
  run.onStop(stop)
  const said = await new Promise<Message>((resolve, reject) => {
    const onExit = (code: number | null) =>
      reject(new Error(`${program.pathname} ended with exit code ${code} before it was ready`))
    child.once('exit', onExit)
    child.once('message', (message) => {
      child.off('exit', onExit)
      resolve(message as Message)
    })
  })
  return { child, said, stop }
}
