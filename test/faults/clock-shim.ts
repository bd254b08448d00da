/**
 * A wall clock that a test moves while the process runs: a server's, or that of one of several
 * nodes. The kernel has no such thing for a single process, so a library compiled from clock-shim.c
 * comes between the process and its C library.
 */

import { spawnSync } from 'node:child_process'
import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { here } from '../servers/place.ts'
import { quick, type RedisServer, startServer } from '../servers/redis.ts'
import { redisBinary } from '../servers/redis-binary.ts'
import { makeFolder } from '../servers/server-process.ts'

export interface ShiftedClock {
  /** Goes before a command that is to have this clock, as the prefix of a `Place` does. */
  readonly prefix: readonly string[]
  /** How far off the clock is from now on; 0 is right again. */
  shift(offsetMs: number): void
}

/** Why there can be no such clock on this machine, in one line. */
export function clockProblem(): string | undefined {
  if (process.platform !== 'linux') return 'wall clocks can only be moved on Linux'
  if (spawnSync('cc', ['--version']).status === 0) return undefined
  return 'wall clocks cannot be moved without a compiler, cc (apt-get install gcc libc6-dev)'
}

/** Its files are in the folder, which has to stay as long as a process has this clock. */
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

/** A server whose clock is right until it is shifted. */
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

/** Written over and never cut short, as a process has the file mapped into its memory. */
function overwrite(path: string, bytes: Uint8Array): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, 0)
  closeSync(file)
}

function milliseconds(offsetMs: number): Uint8Array {
  return new Uint8Array(BigInt64Array.of(BigInt(offsetMs)).buffer)
}
