/** The machine and the versions that a figure depends on. */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { redisBinary } from '../../test/support/servers/redis-binary.ts'
import type { Machine } from './part.ts'

const root = join(import.meta.dirname, '../..')

export function machine(versions: Readonly<Record<string, string>>): Machine {
  return {
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: system(),
    versions: { Node: process.versions.node, ...versions },
  }
}

/** The version in the package.json of an installed package; undefined if it is not installed. */
export function packageVersion(name: string): string | undefined {
  const file = join(root, 'node_modules', name, 'package.json')
  if (!existsSync(file)) return undefined
  return String(JSON.parse(readFileSync(file, 'utf8')).version)
}

/** The version that a program prints; undefined if there is no such program. */
export function programVersion(
  program: string,
  args: readonly string[] = ['--version'],
): string | undefined {
  const { stdout, stderr, error } = spawnSync(program, [...args], { encoding: 'utf8' })
  if (error !== undefined) return undefined
  return /\d+(\.\d+)+/.exec(`${stdout}${stderr}`)?.[0]
}

export function redisVersion(): string {
  return programVersion(redisBinary()) ?? 'unknown'
}

function system(): string {
  const file = '/etc/os-release'
  const about = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const name = /^PRETTY_NAME="?([^"\n]+)/m.exec(about)?.[1]
  return name === undefined ? `${type()} ${release()}` : `${name}, ${type()} ${release()}`
}
