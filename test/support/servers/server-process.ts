/**
 * One process of a server with its folder. It is killed by its process id: by `end`, or by the
 * watchdog when its parent process has ended for any reason.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Enough output to see why a server did not start. */
const OUTPUT_LENGTH_MAX = 4000

export class ServerProcess {
  readonly folder: string
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #output = ''

  constructor(command: string, args: readonly string[], folder: string) {
    this.folder = folder
    this.#child = spawn(command, args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#ended = once(this.#child, 'exit').catch((error) => this.#write(String(error)))
    this.#child.stdout?.on('data', (data) => this.#write(String(data)))
    this.#child.stderr?.on('data', (data) => this.#write(String(data)))
    if (this.#child.pid !== undefined) tellWatchdog(`+${this.#child.pid} ${folder}`)
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error(`the server did not start: ${this.#output}`)
    return this.#child.pid
  }

  /** The end of the server's output. */
  get output(): string {
    return this.#output
  }

  get hasEnded(): boolean {
    const { pid, exitCode, signalCode } = this.#child
    return pid === undefined || exitCode !== null || signalCode !== null
  }

  /** Sends a signal, and does not wait for its effect. */
  kill(signal: NodeJS.Signals): void {
    if (!this.hasEnded) this.#child.kill(signal)
  }

  /** Kills the process, and waits for its end. */
  async end(): Promise<void> {
    this.kill('SIGKILL')
    await this.#ended
    if (this.#child.pid !== undefined) tellWatchdog(`-${this.#child.pid}`)
  }

  #write(text: string): void {
    this.#output = (this.#output + text).slice(-OUTPUT_LENGTH_MAX)
  }
}

export function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), 'tidegate-server-'))
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
}

let watchdog: ChildProcess | undefined

function tellWatchdog(line: string): void {
  watchdog ??= startWatchdog()
  watchdog.stdin?.write(`${line}\n`)
}

/** Started in a process group of its own, so that Ctrl+C does not end it with the tests. */
function startWatchdog(): ChildProcess {
  const script = join(import.meta.dirname, 'watchdog.ts')
  const child = spawn(process.execPath, [script], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  child.unref()
  if (child.stdin !== null && 'unref' in child.stdin && typeof child.stdin.unref === 'function') {
    child.stdin.unref()
  }
  return child
}
