/** The processes of a node with `--workers`. */

import { execFileSync } from 'node:child_process'

export function workersOf(pid: number | undefined): readonly number[] {
  const output = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
  return output.trim().split(/\s+/).map(Number)
}
