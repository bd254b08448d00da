/** The options of a guarded store, checked once. */

import { type FailureMode, failureModes } from '../../decision.ts'
import { invalid } from '../../errors.ts'
import type { Observer } from '../../observer.ts'
import { checkFunction, checkOneOf, checkOptions, checkWhole } from '../../policy/options.ts'
import type { BreakerSettings } from './breaker.ts'

export interface BreakerOptions {
  /** The share of failed calls above which it opens. Default: 0.5. */
  readonly errorRate?: number
  /** Over so long a time. Default: 10,000. */
  readonly windowMs?: number
  /** Calls that it takes to judge, and failures in a row that are enough. Default: 10. */
  readonly callsMin?: number
  /** How long it is open at first; then a twentieth of the outage so far. Default: 500. */
  readonly openFirstMs?: number
  /** And at most. Default: 60,000. */
  readonly openMs?: number
}

export interface GuardedOptions {
  /** After this time a decision is made without the store. Default: 15. */
  readonly deadlineMs?: number
  /** For limits that declare nothing themselves. Default: `open`. */
  readonly onStoreError?: FailureMode
  readonly breaker?: BreakerOptions
  /** For `local`: how many processes share the limits. Default: as many as the store knows of. */
  readonly nodes?: number
  /** Is told what happens. */
  readonly observer?: Observer
}

export interface GuardedSettings {
  readonly deadlineMs: number
  readonly onStoreError: FailureMode
  readonly breaker: BreakerSettings
  readonly nodes: number | undefined
  readonly observer: Observer | undefined
}

export const guardedOptionNames = ['deadlineMs', 'onStoreError', 'breaker', 'nodes', 'observer']

const breakerOptionNames = ['errorRate', 'windowMs', 'callsMin', 'openFirstMs', 'openMs']

/** An answer from a healthy server takes less than a millisecond, and Envoy waits for 20. */
const DEADLINE_MS_DEFAULT = 15

const DEADLINE_MS_MAX = 60_000

const BREAKER_MS_MAX = 3_600_000

const NODES_MAX = 1_000_000

export function parseGuardedOptions(options: GuardedOptions, path: string): GuardedSettings {
  checkOptions(options, path, guardedOptionNames)
  const { deadlineMs = DEADLINE_MS_DEFAULT, onStoreError = 'open', nodes, observer } = options
  if (nodes !== undefined) checkWhole(nodes, `${path}.nodes`, 1, NODES_MAX)
  return Object.freeze({
    deadlineMs: checkWhole(deadlineMs, `${path}.deadlineMs`, 1, DEADLINE_MS_MAX),
    onStoreError: checkOneOf(onStoreError, `${path}.onStoreError`, failureModes),
    breaker: parseBreaker(options.breaker ?? {}, `${path}.breaker`),
    nodes,
    observer: checkFunction(observer, `${path}.observer`),
  })
}

function parseBreaker(options: BreakerOptions, path: string): BreakerSettings {
  checkOptions(options, path, breakerOptionNames)
  const { errorRate = 0.5, windowMs = 10_000, callsMin = 10, openMs = 60_000 } = options
  const { openFirstMs = Math.min(500, openMs) } = options
  if (!(typeof errorRate === 'number' && errorRate >= 0 && errorRate < 1)) {
    const allowed = 'a number from 0 to below 1'
    throw invalid('invalid-option', { path: `${path}.errorRate`, value: errorRate, allowed })
  }
  checkWhole(openMs, `${path}.openMs`, 1, BREAKER_MS_MAX)
  return Object.freeze({
    errorRate,
    windowMs: checkWhole(windowMs, `${path}.windowMs`, 10, BREAKER_MS_MAX),
    callsMin: checkWhole(callsMin, `${path}.callsMin`, 1, 1_000_000),
    openFirstMs: checkWhole(openFirstMs, `${path}.openFirstMs`, 1, openMs),
    openMs,
  })
}
