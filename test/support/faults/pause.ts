/**
 * Stops processes for a while, like a long garbage collection or a frozen machine, and kills
 * processes. The end of a test continues its stopped processes, whether it passed or failed, and
 * the watchdog's SIGKILL also ends a stopped process.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import { until } from '../servers/until.ts'

/** A server of test/support/servers, or a worker of a load. */
export interface Signalled {
  readonly pid: number
  kill(signal: NodeJS.Signals): void
}

/** Stops the process until the returned function is called or the test ends. Only within a test. */
export async function pause(process: Signalled): Promise<() => Promise<void>> {
  // Registered first, because it throws outside a test, where nothing would continue the process.
  onTestFinished(() => resume(process))
  await stop(process)
  return () => resume(process)
}

/** Stops the process while `run` runs, also outside a test. */
export async function whilePaused<T>(process: Signalled, run: () => Promise<T>): Promise<T> {
  try {
    await stop(process)
    return await run()
  } finally {
    await resume(process)
  }
}

/** Kills the process with SIGKILL and waits for its end. */
export async function crash(process: Signalled): Promise<void> {
  const { pid } = process
  process.kill('SIGKILL')
  await until('the process is gone', () => stateOf(pid) === '')
}

async function stop(process: Signalled): Promise<void> {
  process.kill('SIGSTOP')
  await until('the process has stopped', () => stateOf(process.pid) === 'T')
}

async function resume(process: Signalled): Promise<void> {
  process.kill('SIGCONT')
  await until('the process goes on', () => stateOf(process.pid) !== 'T')
}

/** The state letter of `ps`: T for a stopped process; empty if there is no process. */
function stateOf(pid: number): string {
  if (!existsSync('/proc/self/stat')) {
    const { stdout } = spawnSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' })
    return stdout.trim().charAt(0)
  }
  try {
    // It follows the name of the program, which is in parentheses and may contain any characters.
    return /\) (\S)[^)]*$/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? ''
  } catch {
    return ''
  }
}
