/** Node processes at any place, with a channel for messages. */

import { type ChildProcess, fork } from 'node:child_process'
import type { Place } from '../servers/place.ts'

/** Messages may have typed arrays in them. `flags` are those of Node. */
export function forkAt(
  place: Place,
  program: string,
  argument: unknown,
  flags: readonly string[] = [],
): ChildProcess {
  const [execPath = '', ...execArgv] = [...place.prefix, process.execPath, ...flags]
  return fork(program, [JSON.stringify(argument)], {
    execPath,
    execArgv,
    serialization: 'advanced',
  })
}

/**
 * For processes that measure time: on a busy machine, a helper thread of V8 that has lost its
 * processor would delay them.
 */
export const singleThreadedGc: readonly string[] = ['--single-threaded-gc']

/** Rejects when the process ends instead. */
export function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null) => reject(new Error(`the process ended with ${code}`))
    child.once('exit', ended)
    child.once('error', reject)
    child.once('message', (message) => {
      child.off('exit', ended)
      child.off('error', reject)
      resolve(message)
    })
  })
}
