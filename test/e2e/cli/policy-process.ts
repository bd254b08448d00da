/** `tidegate COMMAND --config FILE` as a process of its own, with a policy file that can change. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { programFile } from '../../support/program.ts'
import { replaceFile } from '../../support/replace-file.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'

export interface PolicyProcess {
  /** Everything that the process has printed. */
  output(): string
  /** Writes another policy. */
  write(policy: object): void
  /** Sends SIGTERM, and returns the exit code. */
  stop(): Promise<number | null>
}

export interface PolicyProcessOptions {
  readonly command: 'rls' | 'serve'
  readonly policy: object
  /** The text that it prints when it has started. */
  readonly ready: string
  readonly environment?: Readonly<Record<string, string>>
  /** Further arguments. */
  readonly args?: readonly string[]
}

/** Stopped at the end of the test. */
export async function startPolicyProcess(options: PolicyProcessOptions): Promise<PolicyProcess> {
  const folder = makeFolder()
  const file = join(folder, 'tidegate.yaml')
  const write = (policy: object) => replaceFile(file, JSON.stringify(policy))
  write(options.policy)
  const program = programFile
  const command = [program, options.command, '--config', file, ...(options.args ?? [])]
  const args = ['--disable-warning=ExperimentalWarning', ...command]
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...options.environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString()
    })
  }
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
    return child.exitCode
  }
  onTestFinished(async () => {
    await stop()
    removeFolder(folder)
  })
  await until('it has started', () => child.exitCode !== null || output.includes(options.ready))
  if (child.exitCode !== null) throw new Error(`it ended: ${output}`)
  return { output: () => output, write, stop }
}
