/**
 * Parses a configuration in a worker, so that requests do not wait: a few kilobytes that were made
 * to be slow, or a busy machine, would delay them by a tenth of a second.
 *
 * The module of a worker answers every message, an order, with one message. A worker that fails
 * proves nothing about the text, and a text that was refused is not read again. So a second worker
 * tries an order before it is rejected.
 */

import { extname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'

/** Enough for the largest configuration that is allowed. */
const MEMORY_MB_MAX = 256

/** Returns the answer of a worker that is started for this order alone. */
export function parseInWorker<T>(module: URL, order: unknown, timeoutMs: number): Promise<T> {
  return tryTwice(async () => {
    const worker = startWorker(module)
    try {
      return await ask<T>(worker, order, timeoutMs)
    } finally {
      void worker.terminate()
    }
  })
}

/** A worker that starts slowly must not be replaced by another that has to start. */
const FIRST_ORDER_MS_MAX = 20_000

/**
 * A worker that stays for the next order. To start one takes a tenth of a second, and several
 * seconds if all processes of a busy machine do so at once. It does not keep the process running.
 * It is replaced after it has failed or has taken too long.
 */
export class KeptWorker {
  readonly #module: URL
  #worker: Worker | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(module: URL) {
    this.#module = module
  }

  /** Starts the worker before it is needed. */
  warmUp(): void {
    this.#worker ??= this.#start()
  }

  /** Resolves when the worker has answered or failed at an order, or after `timeoutMs`. */
  async ready(order: unknown, timeoutMs: number): Promise<void> {
    const timeout = new AbortController()
    const answered = this.parse(order, FIRST_ORDER_MS_MAX)
      .catch(() => undefined)
      .finally(() => timeout.abort())
    const tooLong = sleep(timeoutMs, undefined, { signal: timeout.signal }).catch(() => undefined)
    await Promise.race([answered, tooLong])
  }

  /** Returns the answer of the worker. One order at a time: the timeout starts when it is sent. */
  parse<T>(order: unknown, timeoutMs: number): Promise<T> {
    const answer = this.#last.then(() => tryTwice(() => this.#ask<T>(order, timeoutMs)))
    this.#last = answer.catch(() => undefined)
    return answer
  }

  /** Replaces the worker, which returns its memory. */
  replace(): void {
    this.#end(this.#worker)
    this.warmUp()
  }

  async #ask<T>(order: unknown, timeoutMs: number): Promise<T> {
    this.#worker ??= this.#start()
    const worker = this.#worker
    worker.ref()
    try {
      return await ask<T>(worker, order, timeoutMs)
    } catch (error) {
      this.#end(worker)
      throw error
    } finally {
      worker.unref()
    }
  }

  #start(): Worker {
    const worker = startWorker(this.#module)
    // Without a listener, an error between two orders would end the process.
    worker.on('error', () => this.#end(worker))
    worker.on('exit', () => this.#end(worker))
    worker.unref()
    return worker
  }

  #end(worker: Worker | undefined): void {
    if (this.#worker === worker) this.#worker = undefined
    void worker?.terminate()
  }
}

/** The worker `name` beside the module `from`, in source or as it was built. */
export function workerBeside(from: string, name: string): URL {
  return new URL(`./${name}${extname(from)}`, from)
}

function startWorker(module: URL): Worker {
  return new Worker(module, { resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB_MAX } })
}

async function tryTwice<T>(attempt: () => Promise<T>): Promise<T> {
  try {
    return await attempt()
  } catch {
    return attempt()
  }
}

/** Rejects if the worker fails, ends, or takes too long. The caller ends it then. */
function ask<T>(worker: Worker, order: unknown, timeoutMs: number): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const onExit = () => reject(new Error('the worker has ended'))
  const timer = setTimeout(() => reject(new Error('it takes too long')), timeoutMs)
  worker.once('message', resolve)
  worker.once('error', reject)
  worker.once('exit', onExit)
  worker.postMessage(order)
  return promise.finally(() => {
    clearTimeout(timer)
    worker.off('message', resolve)
    worker.off('error', reject)
    worker.off('exit', onExit)
  })
}
