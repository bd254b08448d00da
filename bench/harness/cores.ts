/**
 * Gives what is measured a core to itself, so that how the system spreads processes over its cores
 * is not part of the result. What makes the load, and what is asked meanwhile, share the others.
 */

import { spawnSync } from 'node:child_process'
import type { Run } from './part.ts'

/** What a command begins with so that it runs on that core; empty where there is none to spare. */
export type CoreOfItsOwn = readonly string[]

/**
 * Until the part stops, this process and all that it starts stay away from that core, and so do the
 * ones that are named.
 */
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

/** For a process that runs already. */
export function moveToCore(core: CoreOfItsOwn, pid: number | undefined): void {
  const [, , number] = core
  if (number !== undefined && pid !== undefined) move(pid, [Number(number)])
}

function ownCores(): number[] {
  const { stdout } = spawnSync('taskset', ['-c', '-p', String(process.pid)], { encoding: 'utf8' })
  return coresOf(/list: ([\d,-]+)/.exec(stdout ?? '')?.[1] ?? '')
}

/** Such as `0-2,5`. */
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
