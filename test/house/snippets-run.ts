/**
 * Compiles the snippets of the documents as a user's project would, and runs each in a process of
 * its own against the built library.
 */

import { execFile, fork } from 'node:child_process'
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Snippet } from './snippets.ts'
import type { Probe } from './snippets-preload.ts'
import { repositoryRoot } from './source-file.ts'

export interface Ran {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
  /** The responses of the server; undefined if the snippet starts none. */
  readonly probe: Probe | undefined
}

/** A snippet takes a fraction of a second; one that hangs must not block the tests. */
const RUN_MS_MAX = 20_000

/** Processes at once: they mostly start up, which keeps one core busy each. */
const RUNS_AT_ONCE = 3

/**
 * Compiled with the snippets, because Node takes longer to strip types than to run most of them.
 */
const preload = 'snippets-preload.ts'

/** Inside the repository, so that `tidegate` and the frameworks are found. */
const place = join(repositoryRoot, '.cache', 'snippets', String(process.pid))

const compilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  module: 'nodenext',
  moduleDetection: 'force',
  target: 'es2022',
  lib: ['es2024'],
  types: ['node'],
  allowJs: true,
  checkJs: true,
  skipLibCheck: true,
  rootDir: '.',
  outDir: 'out',
}

/** Writes and compiles the snippets; returns the output of the compiler. */
export async function compileSnippets(snippets: readonly Snippet[]): Promise<string> {
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), JSON.stringify({ type: 'module' }))
  const files = [preload, ...snippets.map(({ file }) => file)]
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  for (const { file, code } of snippets) writeFileSync(join(place, file), code)
  copyFileSync(join(import.meta.dirname, preload), join(place, preload))
  const tsc = join(repositoryRoot, 'node_modules/typescript/bin/tsc')
  const failed = (error: { stdout: string; stderr: string }) => error
  const running = promisify(execFile)(process.execPath, [tsc, '-p', place], { cwd: place })
  const { stdout, stderr } = await running.catch(failed)
  return stdout + stderr
}

export function removeSnippets(): void {
  rmSync(place, { recursive: true, force: true })
}

/** Runs all of them, a few at a time, in the order of the documents. */
export async function runSnippets(snippets: readonly Snippet[]): Promise<Map<string, Ran>> {
  const results = new Map<string, Ran>()
  const waiting = [...snippets]
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      results.set(next.place, await runSnippet(next))
    }
  }
  await Promise.all(Array.from({ length: RUNS_AT_ONCE }, work))
  return results
}

function runSnippet({ file, isServer }: Snippet): Promise<Ran> {
  const loaded = pathToFileURL(compiled(preload)).href
  const child = fork(compiled(file), {
    cwd: place,
    // Snippets without a Redis server print a warning, as intended.
    execArgv: ['--disable-warning=TidegateWarning', ...(isServer ? ['--import', loaded] : [])],
    env: { ...process.env, NODE_ENV: 'production', NODE_OPTIONS: '' },
    timeout: RUN_MS_MAX,
    silent: true,
  })
  const output = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk) => {
    output.stdout += chunk
  })
  child.stderr?.on('data', (chunk) => {
    output.stderr += chunk
  })
  let probe: Probe | undefined
  child.on('message', (message) => {
    probe = message as Probe
  })
  return new Promise((resolve) => {
    child.on('close', (exitCode) => resolve({ exitCode, ...output, probe }))
  })
}

function compiled(file: string): string {
  return join(place, 'out', file.replace(/ts$/, 'js'))
}
