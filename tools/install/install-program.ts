/**
 * Finds and installs programs that are not dependencies of this repository, below the git-ignored
 * .tools: with Go, npm or pip. The callers decide whether to install, and report the result.
 */

import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'

export interface Program {
  readonly name: string
  /** An environment variable with the path of a program that is installed elsewhere. */
  readonly variable: string
  /** The path below .tools to which it is installed. */
  readonly file: string
  /** A Go package with its version. */
  readonly goPackage?: string
  /** npm packages with their versions; the program is a module of one of them. */
  readonly npmPackages?: readonly string[]
  /** A pip package, which gets a virtual environment of its own. */
  readonly pipPackage?: string
}

/** The path of an installed program, or the reason why it was not installed. */
export type Installed = { readonly path: string } | { readonly problem: string }

interface Installer {
  /** The name of the required tool, for users. */
  readonly needs: string
  /** How to install that tool. */
  readonly advice: string
  readonly commands: readonly (readonly string[])[]
  readonly env?: Readonly<Record<string, string>>
}

const tools = join(import.meta.dirname, '../../.tools')

/** Enough for a build from source on a slow machine; longer means that it hangs. */
const INSTALL_MS_MAX = 10 * 60_000

export function programPath({ variable, file }: Program): string | undefined {
  const paths = [process.env[variable] ?? '', join(tools, file)]
  return paths.find((path) => path !== '' && existsSync(path))
}

/** The tool that installs a program, for users; undefined if it has to be built by hand. */
export function installerName(program: Program): string | undefined {
  return installerOf(program)?.needs
}

/** Installs with low priority, because a measurement may be running. */
export async function installProgram(
  program: Program,
  progress: (step: string) => void,
): Promise<Installed> {
  const installer = installerOf(program)
  if (installer === undefined) {
    const advice = `${program.variable} names one that you have built`
    return { problem: `no registry has it by name (${advice})` }
  }
  const { needs, advice, commands, env } = installer
  const [command = ''] = commands[0] ?? []
  if (spawnSync(command, ['version']).error !== undefined) {
    return { problem: `it needs ${needs}, which is not installed (${advice})` }
  }
  const path = join(tools, program.file)
  const step = `install ${program.goPackage ?? program.pipPackage ?? program.name} with ${needs}`
  progress(step)
  try {
    const options = { env: { ...process.env, ...env }, timeout: INSTALL_MS_MAX, cwd: tools }
    for (const words of commands) await promisify(execFile)('nice', ['-n', '19', ...words], options)
  } catch (error) {
    return { problem: `${step} failed: ${reasonOf(error)}` }
  }
  return existsSync(path) ? { path } : { problem: `${step} did not create ${basename(path)}` }
}

function installerOf(program: Program): Installer | undefined {
  const { file, goPackage, npmPackages, pipPackage } = program
  const folder = join(tools, file.split('/')[0] as string)
  if (goPackage !== undefined) {
    const env = { GOBIN: dirname(join(tools, file)) }
    const commands = [['go', 'install', goPackage]]
    return { needs: 'Go', advice: 'apt-get install golang-go', commands, env }
  }
  if (pipPackage !== undefined) {
    const commands = [
      ['python3', '-m', 'venv', '--clear', folder],
      [join(folder, 'bin/pip'), 'install', '-q', pipPackage],
    ]
    return { needs: 'Python', advice: 'apt-get install python3-venv', commands }
  }
  if (npmPackages === undefined) return undefined
  const flags = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const commands = [['npm', 'install', '--prefix', folder, ...flags, ...npmPackages]]
  return { needs: 'npm', advice: 'it comes with Node', commands }
}

/** The end of the last line of the output; Go repeats its current step before that. */
function reasonOf(error: unknown): string {
  const written = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  const line = (written === '' ? String(error) : written).split('\n').at(-1) ?? ''
  return line.trim().split(': ').slice(-2).join(': ')
}
