/**
 * Several processes on one port. The supervisor starts them, replaces a worker that crashes, and
 * restarts them one by one on SIGHUP, so that requests always find a process that listens. It adds
 * up their metrics, so that each of them can serve the page of all, and accepts the connections of
 * operators, so that a worker that hangs gets none.
 */

import cluster, { type Worker } from 'node:cluster'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { DIGEST_VARIABLE } from '../app/logs/request-log.ts'
import {
  type HandChannel,
  HandedConnections,
  HandingListener,
} from '../http-api/handed-connections.ts'
import { WorkerPage, WorkerPages } from '../observability/metrics/worker-pages.ts'
import { onReopen } from './signals.ts'
import { exitCodes, type Terminal } from './terminal.ts'

/** The delay before a crashed worker is replaced, so that crashes do not become a busy loop. */
const RESTART_MS = 500

/** A worker that ends before it listens will probably do so again. */
const FAILED_STARTS_MAX = 3

/** Set for workers: the name in `Via` that they share. */
export const INSTANCE_VARIABLE = 'TIDEGATE_INSTANCE'

export const isWorker = cluster.isWorker

/** The page of metrics of all workers; undefined in a process that is the only one. */
export const workerPage = cluster.isWorker ? new WorkerPage(supervisorChannel()) : undefined

/** The connections of operators; undefined in a process that is the only one. */
export const adminConnections = cluster.isWorker
  ? new HandedConnections({
      onMessage: (listener) =>
        void process.on('message', (message, handle) => listener(message, handle as Socket)),
      send: (message) => void (process.connected && process.send?.(message)),
    })
  : undefined

/** Disconnects a worker from its supervisor, so that it can end when it has no more work. */
export async function leaveSupervisor(): Promise<void> {
  await workerPage?.finish()
  cluster.worker?.disconnect()
}

function supervisorChannel(): ConstructorParameters<typeof WorkerPage>[0] {
  return {
    onMessage: (listener) => void process.on('message', listener),
    send(message, sent = () => undefined) {
      if (process.connected) process.send?.(message, undefined, undefined, sent)
      else sent()
    },
  }
}

/** Resolves with the exit code when all workers have ended. */
export async function superviseWorkers(count: number, terminal: Terminal): Promise<number> {
  const supervisor = new Supervisor(terminal)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => supervisor.stop())
  }
  process.on('SIGHUP', () => void supervisor.restart())
  onReopen(() => supervisor.reopenLogs())
  for (let started = 0; started < count; started++) supervisor.start()
  return supervisor.ended
}

class Supervisor {
  readonly #terminal: Terminal
  /** 48 random bits, as a single gateway has. */
  readonly #instance = randomBytes(6).toString('hex')
  readonly #digestSecret = randomBytes(32).toString('hex')
  readonly #workers = new Set<Worker>()
  readonly #listening = new WeakSet<Worker>()
  /** Workers that open their logs again when they listen. */
  readonly #reopenLater = new WeakSet<Worker>()
  readonly #pages = new WorkerPages()
  readonly #admin = new HandingListener()
  readonly #end = Promise.withResolvers<number>()
  #isStopping = false
  #isRestarting = false
  #failedStarts = 0
  #exitCode: number = exitCodes.ok

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  get ended(): Promise<number> {
    return this.#end.promise
  }

  start(): Worker {
    const worker = cluster.fork({
      [INSTANCE_VARIABLE]: this.#instance,
      [DIGEST_VARIABLE]: this.#digestSecret,
    })
    this.#workers.add(worker)
    this.#pages.add({
      id: worker.id,
      // A worker that has just ended is removed by its event.
      send: (message) => void (worker.isConnected() && worker.send(message, () => undefined)),
    })
    const channel: HandChannel = {
      send(message, socket) {
        // A connection that cannot be sent is closed.
        if (!worker.isConnected()) socket?.destroy()
        else worker.send(message, socket, () => undefined)
      },
    }
    worker.on('message', (message) => {
      this.#pages.onMessage(worker.id, message)
      this.#admin.onMessage(worker.id, channel, message)
    })
    let isListening = false
    worker.once('listening', () => {
      isListening = true
      this.#listening.add(worker)
      if (this.#reopenLater.has(worker)) worker.process.kill('SIGUSR1')
      this.#failedStarts = 0
    })
    worker.once('exit', (code: number | null, signal: string | null) => {
      this.#workers.delete(worker)
      this.#pages.remove(worker.id)
      this.#admin.remove(worker.id)
      const isWanted = worker.exitedAfterDisconnect === true || this.#isStopping
      if (!isWanted) this.#replace(worker, isListening, code, signal)
      if (this.#isStopping && this.#workers.size === 0) this.#finish()
    })
    return worker
  }

  /** A rolling restart: stops each worker after its successor accepts requests. */
  async restart(): Promise<void> {
    if (this.#isRestarting || this.#isStopping) return
    this.#isRestarting = true
    const old = [...this.#workers]
    this.#terminal.stdout(`tidegate: restarting ${old.length} workers one by one\n`)
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
    this.#isRestarting = false
    this.#terminal.stdout(`tidegate: restarted ${old.length} workers\n`)
  }

  /** A worker that starts may have opened the old file, and may not have a handler yet. */
  reopenLogs(): void {
    for (const worker of this.#workers) {
      if (this.#listening.has(worker)) worker.process.kill('SIGUSR1')
      else this.#reopenLater.add(worker)
    }
  }

  stop(): void {
    if (this.#isStopping) return
    this.#isStopping = true
    for (const worker of this.#workers) worker.process.kill('SIGTERM')
    if (this.#workers.size === 0) this.#finish()
  }

  #finish(): void {
    void this.#admin.close()
    this.#end.resolve(this.#exitCode)
  }

  #replace(
    worker: Worker,
    wasListening: boolean,
    code: number | null,
    signal: string | null,
  ): void {
    const how = signal === null ? `exit code ${code}` : signal
    this.#terminal.stderr(`tidegate: worker ${worker.process.pid} ended with ${how}\n`)
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
