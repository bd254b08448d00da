/** The processor time of another process, which waiting and stalls of the machine do not change. */

import { readdirSync, readFileSync } from 'node:fs'

/** In Linux, a tick of the processor's account. */
const TICK_MS = 10

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: fields 14 and 15. */
export function processorMs(pid: number): number {
  const [, rest = ''] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS
}

/**
 * Like `processorMs`, to the nanosecond, for differences of less than 100 ms. It leaves out threads
 * that have ended. https://docs.kernel.org/scheduler/sched-stats.html: the first field.
 */
export function threadsMs(pid: number): number {
  const folder = `/proc/${pid}/task`
  return readdirSync(folder).reduce((totalMs, thread) => {
    const [runNs] = readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ')
    return totalMs + Number(runNs) / 1e6
  }, 0)
}
