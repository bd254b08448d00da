/**
 * Processes that are stopped for a while, as by a long collection of garbage or a frozen machine,
 * and processes that are killed. Nothing stays stopped: a test's end continues what it has stopped,
 * whether it passed or failed, and the watchdog's SIGKILL also ends a stopped process.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import { until } from '../servers/until.ts'

/** A server of test/servers, or a worker of a load. */
export interface Signalled {
  readonly pid: number
  kill(signal: NodeJS.Signals): void
}

/** Stops it until the returned function is called or the test is over. Only within a test. */
export async function pause(process: Signalled): Promise<() => Promise<void>> {
  // First, as it throws outside of a test, where nobody would continue the process.
  onTestFinished(() => resume(process))
  await stop(process)
  return () => resume(process)
}

/** Stops it while something runs, within a test or not. */
export async function whilePaused<T>(process: Signalled, run: () => Promise<T>): Promise<T> {
  try {
    await stop(process)
    return await run()
  } finally {
    await resume(process)
  }
}

/** Kills it with SIGKILL and waits until it is gone. */
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

/** One letter as `ps` has it: T for a stopped process; nothing if there is none. */
function stateOf(pid: number): string {
  if (!existsSync('/proc/self/stat')) {
    const { stdout } = spawnSync('ps', ['-o', 'state=', '-p', String(pid)], { encoding: 'utf8' })
    return stdout.trim().charAt(0)
  }
  try {
    // The name of the program is before it, in parentheses, and may have any characters.
    return /\) (\S)[^)]*$/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1] ?? ''
  } catch {
    return ''
  }
}
