/** Makes limiters: checks their options, and finds the store that they use. */

import { type Clock, systemClock } from '../clock.ts'
import type { Decision, LayeredDecision } from '../decision.ts'
import { invalid } from '../errors.ts'
import { checkFunction, checkOptions } from '../options.ts'
import {
  type GuardedOptions,
  guardedOptionNames,
  observerOf,
  parseGuardedOptions,
} from '../stores/guarded/guarded-options.ts'
import { memoryStore } from '../stores/memory/memory-store.ts'
import type { Store } from '../stores/store.ts'
import { type KeyShape, layeredKeys, singleKey, type Within } from './keys.ts'
import { isLimitingEnabled } from './kill-switch.ts'
import { registerLimits } from './limit-registry.ts'
import type { LayeredLimitOptions, Limiter, LimiterOptions, SingleLimitOptions } from './limiter.ts'
import { StoreLimiter } from './store-limiter.ts'

const optionNames = [
  ...['limit', 'limits', 'within', 'shared', 'name', 'store', 'clock', 'enabled'],
  ...guardedOptionNames,
]

/**
 * A limiter with several limits, decided together: all are charged or none. Its keys are objects
 * with one key per limit.
 */
export function createLimiter<Name extends string, Context = unknown>(
  options: LayeredLimitOptions<Name, Context>,
): Limiter<Readonly<Record<Name, string>>, LayeredDecision<Name>, Context>
/**
 * A limiter with one limit, whose keys are strings. Without a `store`, its counters are in the
 * memory of this process.
 *
 * ```ts
 * const limiter = createLimiter({ limit: tokenBucket({ limit: 100, per: '1m' }) })
 * const { allowed, retryAfterMs } = await limiter.check('ada')
 * ```
 */
// The last overload is the one that `ReturnType<typeof createLimiter>` takes.
export function createLimiter<Context = unknown>(
  options: SingleLimitOptions<Context>,
): Limiter<string, Decision, Context>
export function createLimiter(options: SingleLimitOptions | LayeredLimitOptions<string>): unknown {
  checkOptions(options, 'createLimiter', optionNames)
  if ('limit' in options) refuseLayered(options)
  const { clock = systemClock } = options
  const owned = ownStore(options, clock)
  const front = owned ?? frontOf(options.store as Store)
  const { meter } = options
  if (meter !== undefined) checkFunction(meter.metered, 'createLimiter.meter.metered')
  const store = meter?.metered(front) ?? front
  const observer = observerOf(options, 'createLimiter')
  const isEnabled = isLimitingEnabled(options.enabled)
  const make = <Keys, D extends Decision>(shape: KeyShape<Keys, D, unknown>) => {
    const unregister =
      options.store === undefined
        ? undefined
        : registerLimits(options.store, shape.names, shape.rules)
    return new StoreLimiter(shape, { store, owned, clock, isEnabled, unregister }, observer)
  }
  return 'limits' in options
    ? make(layeredKeys(options.limits, withinOf(options)))
    : make(singleKey(options.name ?? 'default', options.limit))
}

/** A store that the limiter makes for itself: memory, or the front of a remote one. */
function ownStore(options: LimiterOptions, clock: Clock): Store | undefined {
  const { store } = options
  const given = Object.entries(options).filter(([name]) => guardedOptionNames.includes(name))
  const entries = given.filter(([, value]) => value !== undefined)
  // Checked also for memory, which does not use them.
  const guarded: GuardedOptions = Object.fromEntries(entries)
  parseGuardedOptions(guarded, 'createLimiter')
  if (store === undefined) return memoryStore({ clock })
  return !store.isRemote || entries.length === 0 ? undefined : inFrontOf(store, guarded)
}

const fronts = new WeakMap<Store, Store>()

/** The front that all limiters of a store without options of their own share. */
function frontOf(store: Store): Store {
  if (!store.isRemote) return store
  const front = fronts.get(store) ?? inFrontOf(store)
  fronts.set(store, front)
  return front
}

function inFrontOf(store: Store, options?: GuardedOptions): Store {
  if (store.front !== undefined) return store.front(store, options)
  const allowed = 'memoryStore(), redisStore(client), or a remote store with front: frontStore'
  throw invalid('invalid-option', { path: 'createLimiter.store', value: store, allowed })
}

/** Refuses options that only a limiter with several limits has. */
function refuseLayered(options: object): void {
  for (const [name, value] of Object.entries(options)) {
    if (!['limits', 'within', 'shared'].includes(name)) continue
    const allowed = name === 'limits' ? 'either limit or limits' : 'only with limits'
    throw invalid('invalid-option', { path: `createLimiter.${name}`, value, allowed })
  }
}

function withinOf({ within, shared }: LayeredLimitOptions<string>): Within<string> | undefined {
  if (within !== undefined) return { name: within, shared: shared ?? [] }
  if (shared === undefined) return undefined
  const place = { path: 'createLimiter.shared', value: shared, allowed: 'only with within' }
  throw invalid('invalid-option', place)
}
