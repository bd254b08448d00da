/**
 * Programs of others that are no dependencies of this repository: where one is, or how it gets
 * there. Nothing is installed unless the person wishes it (`--peers`), and then below the
 * git-ignored .tools.
 */

import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
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
  /** Packages of npm with their versions, where the program is a module of one of them. */
  readonly npmPackages?: readonly string[]
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

function adviceOn(peer: PeerProgram): string {
  const own = `${peer.variable} names one that is installed elsewhere`
  const way = installerOf(peer)
  return way === undefined ? own : `./run.sh bench --peers does it, with ${way.needs}; ${own}`
}

interface Installer {
  /** What it is, for a person. */
  readonly needs: string
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** How to get it where it is missing. */
  readonly advice: string
}

function installerOf({ file, goPackage, npmPackages }: PeerProgram): Installer | undefined {
  const folder = dirname(join(tools, file))
  if (goPackage !== undefined) {
    const command = ['go', 'install', goPackage]
    return { needs: 'Go', command, env: { GOBIN: folder }, advice: 'apt-get install golang-go' }
  }
  if (npmPackages === undefined) return undefined
  const prefix = join(tools, file.split('/')[0] as string)
  const flags = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const command = ['npm', 'install', '--prefix', prefix, ...flags, ...npmPackages]
  return { needs: 'npm', command, env: {}, advice: 'it comes with Node' }
}

/** With low priority, as somebody may be measuring. */
async function installed(
  run: Pick<Run, 'progress' | 'skipped'>,
  peer: PeerProgram,
): Promise<string | undefined> {
  const { name, file, variable } = peer
  const installer = installerOf(peer)
  if (installer === undefined) {
    run.skipped(`${name}: no registry has it by name (${variable} names one that you have built)`)
    return undefined
  }
  const { needs, command, advice } = installer
  if (spawnSync(command[0] as string, ['version']).error !== undefined) {
    run.skipped(`${name}: it needs ${needs}, which is not installed (${advice})`)
    return undefined
  }
  const path = join(tools, file)
  const what = `${command.slice(0, 2).join(' ')} ${peer.goPackage ?? name}`
  run.progress(what)
  try {
    const env = { ...process.env, ...installer.env }
    const options = { env, timeout: INSTALL_MS_MAX, cwd: tools }
    await promisify(execFile)('nice', ['-n', '19', ...command], options)
    if (existsSync(path)) return path
    run.skipped(`${name}: ${what} brought no ${basename(path)}`)
  } catch (error) {
    run.skipped(`${name}: ${what} failed: ${reasonOf(error)}`)
  }
  return undefined
}

/** The end of the last line that it wrote; before that, Go says several times what it was doing. */
function reasonOf(error: unknown): string {
  const written = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : ''
  const line = (written === '' ? String(error) : written).split('\n').at(-1) ?? ''
  return line.trim().split(': ').slice(-2).join(': ')
}

/** Go writes the version into the program, and npm beside it; of others nobody tells. */
function versionOf(path: string): string {
  const manifest = join(dirname(path), '../package.json')
  if (extname(path) === '.js' && existsSync(manifest)) {
    return String(JSON.parse(readFileSync(manifest, 'utf8')).version)
  }
  const { stdout = '' } = spawnSync('go', ['version', '-m', path], { encoding: 'utf8' })
  return /^\s*mod\s+\S+\s+(\S+)/m.exec(stdout)?.[1] ?? 'unknown'
}
