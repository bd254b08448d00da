/** `tidegate policy` in this process, for tests of fleets. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { type FleetOptions, localPolicy } from './fleet-node.ts'

export interface Output {
  readonly code: number
  readonly text: string
}

/** Returns a function that runs `tidegate policy` with the local file of a node of this fleet. */
export function commandLine(options: FleetOptions) {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const local = join(folder, 'local.yaml')
  writeFileSync(local, JSON.stringify(localPolicy(options)))
  const run = async (...args: readonly string[]): Promise<Output> => {
    let text = ''
    const write = (part: string) => {
      text += part
    }
    const terminal = { environment: {}, stdout: write, stderr: write }
    const code = await runCli(['policy', ...args, '--config', local], terminal)
    return { code, text }
  }
  let files = 0
  const file = (text: string) => {
    const path = join(folder, `${++files}.yaml`)
    writeFileSync(path, text)
    return path
  }
  return Object.assign(run, { file })
}
