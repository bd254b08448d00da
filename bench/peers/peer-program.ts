/**
 * Programs of others that no package of npm brings: where one is, or how it gets there. Nothing is
 * installed unless the person wishes it (`--peers`), and then below the git-ignored .tools.
 */

import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Run } from '../harness/part.ts'

export interface PeerProgram {
  readonly name: string
  /** Of the environment: the path of one that is installed elsewhere. */
  readonly variable: string
  /** Below .tools, where it is installed. */
  readonly file: string
  /** A package of Go's with its version, where it can be installed by name. */
  readonly goPackage?: string
}

const tools = join(import.meta.dirname, '../../.tools')

/** A build from source on a slow machine; what takes longer hangs. */
const INSTALL_MS_MAX = 10 * 60_000

/** The path of the program, or undefined after a line that says what was left out and why. */
export async function peerProgram(
  run: Pick<Run, 'installsPeers' | 'progress' | 'skipped' | 'uses'>,
  peer: PeerProgram,
): Promise<string | undefined> {
  const found = pathOf(peer)
  const path = found ?? (run.installsPeers ? await installed(run, peer) : undefined)
  if (path !== undefined) run.uses(peer.name, versionOf(path))
  else if (!run.installsPeers) run.skipped(`${peer.name}: not installed (${adviceOn(peer)})`)
  return path
}

function pathOf({ variable, file }: PeerProgram): string | undefined {
  const paths = [process.env[variable] ?? '', join(tools, file)]
  return paths.find((path) => path !== '' && existsSync(path))
}

function adviceOn({ goPackage, variable }: PeerProgram): string {
  const own = `${variable} names one that is installed elsewhere`
  return goPackage === undefined ? own : `./run.sh bench rls --peers does it, with Go; ${own}`
}

/** With low priority, as somebody may be measuring. */
async function installed(
  run: Pick<Run, 'progress' | 'skipped'>,
  { name, file, goPackage, variable }: PeerProgram,
): Promise<string | undefined> {
  if (goPackage === undefined) {
    run.skipped(`${name}: no registry has it by name (${variable} names one that you have built)`)
    return undefined
  }
  if (spawnSync('go', ['version']).error !== undefined) {
    run.skipped(`${name}: it needs Go, which is not installed (apt-get install golang-go)`)
    return undefined
  }
  const path = join(tools, file)
  run.progress(`go install ${goPackage}`)
  try {
    const env = { ...process.env, GOBIN: dirname(path) }
    const options = { env, timeout: INSTALL_MS_MAX, cwd: tools }
    await promisify(execFile)('nice', ['-n', '19', 'go', 'install', goPackage], options)
    if (existsSync(path)) return path
    run.skipped(`${name}: go install ${goPackage} brought no ${basename(path)}`)
  } catch (error) {
    run.skipped(`${name}: go install ${goPackage} failed: ${reasonOf(error)}`)
  }
  return undefined
}

/** The end of the last line that it wrote; before that, Go says several times what it was doing. */
function reasonOf(error: unknown): string {
  const written = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  const line = (written === '' ? String(error) : written).split('\n').at(-1) ?? ''
  return line.trim().split(': ').slice(-2).join(': ')
}

/** Go writes the version into the program; others tell it themselves, or nobody does. */
function versionOf(path: string): string {
  const { stdout = '' } = spawnSync('go', ['version', '-m', path], { encoding: 'utf8' })
  return /^\s*mod\s+\S+\s+(\S+)/m.exec(stdout)?.[1] ?? 'unknown'
}
