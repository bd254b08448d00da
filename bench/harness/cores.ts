/**
 * Gives the measured process a core of its own, so that the scheduler's choice of cores does not
 * affect the result. Load generators and backends share the other cores.
 */

import { spawnSync } from 'node:child_process'
import type { Run } from './part.ts'

/** The beginning of a command that runs on that core; empty if the machine has no core to spare. */
export type CoreOfItsOwn = readonly string[]

/** Until the part stops, this process, its children and the named processes stay off that core. */
export function setCoreAside(
  run: Pick<Run, 'onStop' | 'note'>,
  pids: readonly number[] = [],
): CoreOfItsOwn {
  const cores = ownCores()
  const [first, ...others] = cores
  if (first === undefined || others.length === 0) {
    run.note('There was no core to spare, or no `taskset`: all processes share the cores.')
    return []
  }
  for (const pid of [process.pid, ...pids]) move(pid, others)
  run.onStop(() => move(process.pid, cores))
  return ['taskset', '-c', String(first)]
}

/** Moves a running process to the core. */
export function moveToCore(core: CoreOfItsOwn, pid: number | undefined): void {
  const [, , number] = core
  if (number !== undefined && pid !== undefined) move(pid, [Number(number)])
}

function ownCores(): number[] {
  const { stdout } = spawnSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' })
  return coresOf(/list: ([\d,-]+)/.exec(stdout ?? '')?.[1] ?? '')
}

/** Parses a list of cores, such as `0-2,5`. */
export function coresOf(list: string): number[] {
  return list.split(',').flatMap((part) => {
    const [from, to = from] = part.split('-')
    if (from === undefined || from === '') return []
    return Array.from({ length: Number(to) - Number(from) + 1 }, (_, at) => Number(from) + at)
  })
}

function move(pid: number, cores: readonly number[]): void {
  spawnSync('taskset', ['-a', '-c', '-p', cores.join(','), String(pid)])
}
