/**
 * Programs of peers that are not dependencies of this repository. Nothing is installed without
 * `--peers`.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import {
  installerName,
  installProgram,
  type Program,
  programPath,
} from '../../tools/install/install-program.ts'
import type { Run } from '../harness/part.ts'

/** The path of the program; or undefined, after a line that reports what is left out and why. */
export async function peerProgram(
  run: Pick<Run, 'installsPeers' | 'progress' | 'skipped' | 'uses'>,
  peer: Program,
): Promise<string | undefined> {
  const path = programPath(peer) ?? (await installed(run, peer))
  if (path !== undefined) run.uses(peer.name, versionOf(path))
  return path
}

async function installed(
  run: Pick<Run, 'installsPeers' | 'progress' | 'skipped'>,
  peer: Program,
): Promise<string | undefined> {
  if (!run.installsPeers) {
    run.skipped(`${peer.name}: not installed (${adviceOn(peer)})`)
    return undefined
  }
  const result = await installProgram(peer, (step) => run.progress(step))
  if ('path' in result) return result.path
  run.skipped(`${peer.name}: ${result.problem}`)
  return undefined
}

function adviceOn(peer: Program): string {
  const own = `${peer.variable} names one that is installed elsewhere`
  const needs = installerName(peer)
  return needs === undefined ? own : `./run.sh bench --peers does it, with ${needs}; ${own}`
}

/** Go writes the version into the program, and npm into package.json; others have none. */
function versionOf(path: string): string {
  const manifest = join(dirname(path), '../package.json')
  if (extname(path) === '.js' && existsSync(manifest)) {
    return String(JSON.parse(readFileSync(manifest, 'utf8')).version)
  }
  const { stdout = '' } = spawnSync('go', ['version', '-m', path], { encoding: 'utf8' })
  return /^\s*mod\s+\S+\s+(\S+)/m.exec(stdout)?.[1] ?? 'unknown'
}
