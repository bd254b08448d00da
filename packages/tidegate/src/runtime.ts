/**
 * Features of the JavaScript runtime that are not the same everywhere. The library runs on Node.js,
 * Bun, Deno and edge runtimes, so it imports no `node:` module. Features of Node.js are reached
 * through globals, which are read at every call, and have a substitute on other runtimes.
 */

import { systemClock } from './clock.ts'

/** The part of the global object that only some runtimes have. */
interface RuntimeGlobals {
  readonly process?: {
    readonly env?: Readonly<Record<string, string | undefined>>
    emitWarning?(message: string, options: { type: string; code: string }): void
    getBuiltinModule?(id: string): unknown
    nextTick?(callback: () => void): void
  }
  readonly console?: { warn(message: string): void }
  setImmediate?(callback: () => void): unknown
}

/** The event loop's time so far, in milliseconds. */
export interface LoopTimes {
  readonly idle: number
  readonly active: number
}

const runtime: RuntimeGlobals = globalThis

export function randomUUID(): string {
  return crypto.randomUUID()
}

/** A random integer from `from` to below `to`, a range of at most 2^32. */
export function randomInt(from: number, to: number): number {
  const [bits = 0] = crypto.getRandomValues(new Uint32Array(1))
  return from + Math.floor((bits / 2 ** 32) * (to - from))
}

/** Emits a process warning on Node.js; other runtimes write it to the console. */
export function emitWarning(message: string, code: string): void {
  const type = 'TidegateWarning'
  if (runtime.process?.emitWarning !== undefined) {
    runtime.process.emitWarning(message, { type, code })
    return
  }
  runtime.console?.warn(`${type} [${code}]: ${message}`)
}

/** Undefined if the variable is not set, or if the runtime has no environment. */
export function environmentVariable(name: string): string | undefined {
  return runtime.process?.env?.[name]
}

/** Runs `callback` in a later turn of the event loop, on Node.js after the sockets were read. */
export function inNextTurn(callback: () => void): void {
  if (runtime.setImmediate !== undefined) runtime.setImmediate(callback)
  else systemClock.schedule(callback, 0)
}

/**
 * Runs `callback` in this turn of the event loop, when all promises that are settled now have been
 * continued. Returns false if the runtime cannot do that.
 */
export function afterContinuations(callback: () => void): boolean {
  const tick = runtime.process?.nextTick
  if (tick === undefined) return false
  // A tick that is added by a tick runs before the continuations; one of a microtask does not.
  queueMicrotask(() => tick(callback))
  return true
}

/** Undefined if the runtime does not measure its event loop. */
export function loopTimes(): LoopTimes | undefined {
  const measured: { eventLoopUtilization?(): LoopTimes | undefined } = performance
  return measured.eventLoopUtilization?.()
}

/** Returns a module of Node.js; undefined if the runtime does not have it. */
export function builtinModule(id: string): unknown {
  return runtime.process?.getBuiltinModule?.(id)
}
