/** The options of a guarded store, checked once. */

import { type FailureMode, failureModes, type OverloadMode, overloadModes } from '../../decision.ts'
import { invalid } from '../../errors.ts'
import { bothObservers, type Meter, type Observer } from '../../observer.ts'
import { checkFunction, checkOneOf, checkOptions, checkWhole } from '../../options.ts'
import type { CallBounds } from '../call-bounds.ts'
import type { BreakerSettings } from './breaker.ts'

export interface BreakerOptions {
  /** The share of failed calls above which it opens. Default: 0.5. */
  readonly errorRate?: number
  /** The time over which calls are counted. Default: 10,000. */
  readonly windowMs?: number
  /** The fewest calls in that time; as many failures in a row open it. Default: 10. */
  readonly callsMin?: number
  /** How long it is open at first; then a twentieth of the outage so far. Default: 500. */
  readonly openFirstMs?: number
  /** The longest time that it stays open. Default: 60,000. */
  readonly openMs?: number
}

export interface GuardedOptions {
  /**
   * How long the store may stay silent after a command was sent to it; then `onStoreError` decides
   * about its calls. Default: three times the measured round trip, from 15 to 100.
   */
  readonly deadlineMs?: number
  /** How long a call may wait to be sent; then `onOverload` decides. Default: 1,000. */
  readonly queueMs?: number
  /** How many calls may wait to be sent; `onOverload` decides about more. Default: 50,000. */
  readonly queueMax?: number
  /** How long calls wait for a store that has never answered. Default: 1,000. */
  readonly connectMs?: number
  /** For limits that declare nothing themselves. Default: `open`. */
  readonly onStoreError?: FailureMode
  /** For limits that declare nothing themselves. Default: `shed`. */
  readonly onOverload?: OverloadMode
  readonly breaker?: BreakerOptions
  /** For `local`: how many processes share the limits. Default: the number that the store has. */
  readonly nodes?: number
  /** Called with each event. */
  readonly observer?: Observer
  /** Counts commands and events: `limiterMetrics().meter` of `tidegate/metrics`. */
  readonly meter?: Meter
}

export interface GuardedSettings {
  readonly bounds: CallBounds
  readonly onStoreError: FailureMode
  readonly onOverload: OverloadMode
  readonly breaker: BreakerSettings
  readonly nodes: number | undefined
  readonly observer: Observer | undefined
}

export const guardedOptionNames = [
  ...['deadlineMs', 'queueMs', 'queueMax', 'connectMs'],
  ...['onStoreError', 'onOverload', 'breaker', 'nodes', 'observer', 'meter'],
]

const breakerOptionNames = ['errorRate', 'windowMs', 'callsMin', 'openFirstMs', 'openMs']

/** Clients of a service time out by then, and Redis decides about 100,000 calls in this time. */
const QUEUE_MS_DEFAULT = 1_000

/** Each takes about 600 bytes: 30 MB in all. */
const QUEUE_MAX_DEFAULT = 50_000

/** A connection within one region, TLS included, takes a tenth of this. */
const CONNECT_MS_DEFAULT = 1_000

const BOUND_MS_MAX = 60_000

const QUEUE_MAX_MAX = 10_000_000

const BREAKER_MS_MAX = 3_600_000

const NODES_MAX = 1_000_000

export function parseGuardedOptions(options: GuardedOptions, path: string): GuardedSettings {
  checkOptions(options, path, guardedOptionNames)
  const { onStoreError = 'open', onOverload = 'shed', nodes } = options
  if (nodes !== undefined) checkWhole(nodes, `${path}.nodes`, 1, NODES_MAX)
  return Object.freeze({
    bounds: parseBounds(options, path),
    onStoreError: checkOneOf(onStoreError, `${path}.onStoreError`, failureModes),
    onOverload: checkOneOf(onOverload, `${path}.onOverload`, overloadModes),
    breaker: parseBreaker(options.breaker ?? {}, `${path}.breaker`),
    nodes,
    observer: observerOf(options, path),
  })
}

/** The observer, and that of the meter. */
export function observerOf({ observer, meter }: GuardedOptions, path: string) {
  checkFunction(observer, `${path}.observer`)
  checkMeter(meter, `${path}.meter`)
  return bothObservers(observer, meter?.observer)
}

function checkMeter(meter: Meter | undefined, path: string): void {
  if (meter === undefined) return
  const { command, observer } = Object(meter) as Partial<Meter>
  if (typeof command === 'function' && typeof observer === 'function') return
  const allowed = 'limiterMetrics().meter of tidegate/metrics'
  throw invalid('invalid-option', { path, value: meter, allowed })
}

function parseBounds(options: GuardedOptions, path: string): CallBounds {
  const { deadlineMs, queueMs = QUEUE_MS_DEFAULT } = options
  if (deadlineMs !== undefined) checkWhole(deadlineMs, `${path}.deadlineMs`, 1, BOUND_MS_MAX)
  const { queueMax = QUEUE_MAX_DEFAULT, connectMs = CONNECT_MS_DEFAULT } = options
  return Object.freeze({
    deadlineMs,
    queueMs: checkWhole(queueMs, `${path}.queueMs`, 1, BOUND_MS_MAX),
    queueMax: checkWhole(queueMax, `${path}.queueMax`, 1, QUEUE_MAX_MAX),
    connectMs: checkWhole(connectMs, `${path}.connectMs`, 1, BOUND_MS_MAX),
    meter: options.meter,
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
