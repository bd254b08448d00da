/** A program of examples/ in a process of its own, and everything that it prints. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { repositoryRoot } from '../../house/source-file.ts'

export function start(
  program: string,
  args: readonly string[],
  environment: Record<string, string>,
) {
  const path = join(repositoryRoot, program)
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', path, ...args], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const printed = { text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (part: Buffer) => {
      printed.text += part.toString()
    })
  }
  return { child, printed }
}

export async function run(program: string, args: readonly string[] = [], environment = {}) {
  const { child, printed } = start(program, args, environment)
  const [code] = (await once(child, 'close')) as [number]
  return { code, text: printed.text }
}
