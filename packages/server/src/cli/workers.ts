/**
 * Several processes on one port: this one starts them, starts another where one breaks down, and
 * exchanges them one by one when asked to, so that requests always find somebody.
 */

import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { exitCodes, type Terminal } from './terminal.ts'

/** One that breaks down is replaced after this, so that a fault at the start is no busy loop. */
const RESTART_MS = 500

/** A worker that ends before it listens will do so again: no use in trying for ever. */
const FAILED_STARTS_MAX = 3

export const isWorker = cluster.isWorker

/** Lets a worker end once it has nothing to do any more: its supervisor is no reason to stay. */
export function leaveSupervisor(): void {
  cluster.worker?.disconnect()
}

/** Resolves when all have ended, with the exit code. */
export async function superviseWorkers(count: number, terminal: Terminal): Promise<number> {
  const supervisor = new Supervisor(terminal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => supervisor.stop())
  }
  process.on('SIGHUP', () => void supervisor.exchange())
  for (let started = 0; started < count; started++) supervisor.start()
  return supervisor.ended
}

class Supervisor {
  readonly #terminal: Terminal
  readonly #workers = new Set<Worker>()
  readonly #end = Promise.withResolvers<number>()
  #isStopping = false
  #isExchanging = false
  #failedStarts = 0
  #exitCode: number = exitCodes.ok

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  get ended(): Promise<number> {
    return this.#end.promise
  }

  start(): Worker {
    const worker = cluster.fork()
    this.#workers.add(worker)
    let isListening = false
    worker.once('listening', () => {
      isListening = true
      this.#failedStarts = 0
    })
    worker.once('exit', (code: number | null, signal: string | null) => {
      this.#workers.delete(worker)
      const isWanted = worker.exitedAfterDisconnect === true || this.#isStopping
      if (!isWanted) this.#replace(worker, isListening, code, signal)
      if (this.#isStopping && this.#workers.size === 0) this.#end.resolve(this.#exitCode)
    })
    return worker
  }

  /** A new worker for each old one, which goes only when the new one takes requests. */
  async exchange(): Promise<void> {
    if (this.#isExchanging || this.#isStopping) return
    this.#isExchanging = true
    const old = [...this.#workers]
    this.#terminal.print(`tidegate: exchanging ${old.length} workers\n`)
    for (const worker of old) {
      const successor = this.start()
      const [event] = await Promise.race([
        once(successor, 'listening').then(() => ['listening']),
        once(successor, 'exit').then(() => ['exit']),
      ])
      if (event === 'exit' || this.#isStopping) break
      worker.exitedAfterDisconnect = true
      worker.process.kill('SIGTERM')
      if (this.#workers.has(worker)) await once(worker, 'exit')
    }
    this.#isExchanging = false
    this.#terminal.print(`tidegate: exchanged ${old.length} workers\n`)
  }

  stop(): void {
    if (this.#isStopping) return
    this.#isStopping = true
    for (const worker of this.#workers) worker.process.kill('SIGTERM')
    if (this.#workers.size === 0) this.#end.resolve(this.#exitCode)
  }

  #replace(
    worker: Worker,
    wasListening: boolean,
    code: number | null,
    signal: string | null,
  ): void {
    const how = signal === null ? `exit code ${code}` : signal
    this.#terminal.complain(`tidegate: worker ${worker.process.pid} ended with ${how}\n`)
    if (!wasListening) this.#failedStarts += 1
    if (this.#failedStarts >= FAILED_STARTS_MAX) {
      this.#exitCode = exitCodes.failed
      this.stop()
      return
    }
    void sleep(RESTART_MS).then(() => {
      if (!this.#isStopping) this.start()
    })
  }
}
