/** Node processes at any place, with a channel for messages. */

import { type ChildProcess, fork } from 'node:child_process'
import type { Place } from '../servers/place.ts'

/** Messages may have typed arrays in them. */
export function forkAt(place: Place, program: string, argument: unknown): ChildProcess {
  const [execPath = '', ...execArgv] = [...place.prefix, process.execPath]
  return fork(program, [JSON.stringify(argument)], {
    execPath,
    execArgv,
    serialization: 'advanced',
  })
}

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
