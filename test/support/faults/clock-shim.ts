/**
 * A wall clock of one process that a test shifts while it runs. The kernel cannot shift the clock
 * of a single process, so a library compiled from clock-shim.c wraps the C library.
 */

import { spawnSync } from 'node:child_process'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { here } from '../servers/place.ts'
import { quick, type RedisServer, startServer } from '../servers/redis.ts'
import { redisBinary } from '../servers/redis-binary.ts'
import { makeFolder } from '../servers/server-process.ts'

export interface ShiftedClock {
  /** The prefix of a command that uses this clock, like the prefix of a `Place`. */
  readonly prefix: readonly string[]
  /** Sets the offset of the clock; 0 is correct. */
  shift(offsetMs: number): void
}

/** The reason why this machine does not support it, in one line. */
export function clockProblem(): string | undefined {
  if (process.platform !== 'linux') return 'wall clocks can only be moved on Linux'
  if (spawnSync('cc', ['--version']).status === 0) return undefined
  return 'wall clocks cannot be moved without a compiler, cc (apt-get install gcc libc6-dev)'
}

/** Its files are in the folder, which must exist while a process uses this clock. */
export function makeShiftedClock(folder: string): ShiftedClock {
  const library = join(folder, 'clock-shim.so')
  const file = join(folder, 'clock-offset')
  compile(library)
  writeFileSync(file, milliseconds(0))
  return {
    prefix: ['env', `LD_PRELOAD=${library}`, `TIDEGATE_CLOCK_FILE=${file}`],
    shift: (offsetMs) => overwrite(file, milliseconds(offsetMs)),
  }
}

export interface ShiftedRedis {
  readonly redis: RedisServer
  readonly clock: ShiftedClock
}

/** Starts a server whose clock is correct until it is shifted. */
export async function startShiftedRedis(args: readonly string[] = []): Promise<ShiftedRedis> {
  const folder = makeFolder()
  const clock = makeShiftedClock(folder)
  const place = { ...here, prefix: clock.prefix }
  const config = (port: number) => [...quick, `port ${port}`]
  const plan = { binary: redisBinary(), folder, config, args, place }
  return { redis: await startServer(plan), clock }
}

function compile(library: string): void {
  const source = join(import.meta.dirname, 'clock-shim.c')
  const flags = ['-shared', '-fPIC', '-O2', '-Wall', '-Wextra', '-Werror']
  const { status, stderr, error } = spawnSync('cc', [...flags, '-o', library, source])
  if (status !== 0) throw new Error(`clock-shim.c was not compiled: ${error?.message ?? stderr}`)
}

/** Overwrites the file in place, because a process has it mapped into its memory. */
function overwrite(path: string, bytes: Uint8Array): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, 0)
  closeSync(file)
}

function milliseconds(offsetMs: number): Uint8Array {
  return new Uint8Array(BigInt64Array.of(BigInt(offsetMs)).buffer)
}
