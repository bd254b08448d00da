/**
 * The Redis store: the same decisions as the memory store, shared by any number of processes. One
 * script decides about a group, which Redis runs without interruption; time is the server's.
 *
 * It rejects with the reason if a call fails, and if the server is silent for `timeoutMs`. The
 * caller decides what a failure means for a request. The user opens and closes the client.
 *
 * `bounded` gives each guard a view with bounds and a queue of its own. All views of a store share
 * its client, its keys and its time.
 */

import type { Clock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { checkBoolean, checkOneOf, checkOptions, checkWhole } from '../../options.ts'
import { frontStore } from '../front-store.ts'
import type {
  Adjustment,
  Callback,
  Charge,
  ChargeMode,
  Counter,
  Store,
  StoreCapabilities,
} from '../store.ts'
import { BUCKETS_DEFAULT, BUCKETS_MAX, bucketTags } from './buckets.ts'
import { type RedisCaller, type RedisClient, redisCaller, type ScriptClient } from './client.ts'
import { slotOf } from './cluster-slot.ts'
import { newPipeline, type Pipeline, type Replication } from './pipeline/pipeline.ts'
import { RedisKeys } from './redis-key.ts'
import { decisionAt, LimitArgs, unconfirmed } from './scripts/script-arguments.ts'
import { adjustScript, heartbeatScript, resetScript } from './scripts/scripts.generated.ts'
import { ServerTime } from './server-time.ts'

export type { RedisClient, ScriptClient } from './client.ts'

export interface RedisStoreOptions {
  /** The prefix of all keys. Default: `tg`. */
  readonly prefix?: string
  /**
   * `replicated` waits after every charge until replicas have it, and marks decisions that they did
   * not confirm in time as degraded. Default: `memory`, as Redis itself answers.
   */
  readonly durability?: Durability
  /** With `replicated`: how many replicas must confirm. Default: 1. */
  readonly replicas?: number
  /** With `replicated`: how long to wait for them. Default: 10. */
  readonly replicasTimeoutMs?: number
  /**
   * How long the server may stay silent after a command, if no guard sets another time. Default:
   * 1,000.
   */
  readonly timeoutMs?: number
  /**
   * False sends the first call at once, instead of after two probes that wait for the connection
   * and measure the round trip. For a client over HTTP and a store that lives for one request; set
   * `deadlineMs` of the limiter with it. Default: true.
   */
  readonly probes?: boolean
  /**
   * On Redis Cluster: how many slots the keys share, so that one command charges many of them. All
   * processes need the same number: a change resets all counters. At least ten for each
   * master keep the masters evenly loaded. 0 gives every key a slot of its own. Default: 32.
   */
  readonly buckets?: number
  /** For tests: time instead of the server's. */
  readonly clock?: Clock
}

export const durabilities = ['memory', 'replicated'] as const

export type Durability = (typeof durabilities)[number]

const known = [
  ...['prefix', 'durability', 'replicas', 'replicasTimeoutMs', 'timeoutMs', 'probes', 'buckets'],
  'clock',
]

const PREFIX_DEFAULT = 'tg'

/** Braces would be a hash tag and put all keys into one slot. */
const PREFIX = /^[A-Za-z0-9_.:-]{1,32}$/

/** Long enough for a slow server; guards set a shorter time for decisions. */
const TIMEOUT_MS_DEFAULT = 1_000

/** So that the answer still comes within the 15 ms that a decision may take. */
const REPLICAS_TIMEOUT_MS_DEFAULT = 10

const DURATION_MS_MAX = 60_000

/**
 * A store in Redis, whose counters all processes share. `client` is any object with `evalsha` and
 * `eval`. It stays the caller's to close.
 */
// An overload of its own, so that the functions of an object literal need no types.
export function redisStore(client: ScriptClient, options?: RedisStoreOptions): Store
/**
 * A store in Redis, whose counters all processes share. `client` is a connected client of ioredis
 * or node-redis. It stays the caller's to close.
 */
export function redisStore(client: RedisClient, options?: RedisStoreOptions): Store
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): Store {
  checkOptions(options, 'redisStore', known)
  const { prefix = PREFIX_DEFAULT, timeoutMs = TIMEOUT_MS_DEFAULT, clock } = options
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    const allowed = '1 to 32 of the characters A-Z a-z 0-9 _ . : -'
    throw invalid('invalid-option', { path: 'redisStore.prefix', value: prefix, allowed })
  }
  checkWhole(timeoutMs, 'redisStore.timeoutMs', 1, DURATION_MS_MAX)
  const { buckets = BUCKETS_DEFAULT } = options
  checkWhole(buckets, 'redisStore.buckets', 0, BUCKETS_MAX)
  const probes = options.probes === undefined || checkBoolean(options.probes, 'redisStore.probes')
  const caller = redisCaller(client)
  const replication = replicationOf(options, caller)
  const time = new ServerTime(clock)
  const pipeline = newPipeline({
    caller,
    replication,
    time,
    probes,
    prefix,
    deadlineMs: timeoutMs,
  })
  const keys = new RedisKeys(prefix, caller.isCluster ? bucketTags(buckets) : [])
  return new Redis({ caller, prefix, keys, time }, pipeline)
}

/** State that the views of a store share. */
interface Shared {
  readonly caller: RedisCaller
  readonly prefix: string
  readonly keys: RedisKeys
  readonly time: ServerTime
}

function replicationOf(options: RedisStoreOptions, { canWait }: RedisCaller): Replication {
  const { durability = 'memory', replicas, replicasTimeoutMs } = options
  checkOneOf(durability, 'redisStore.durability', durabilities)
  if (durability === 'memory') {
    for (const [name, value] of Object.entries({ replicas, replicasTimeoutMs })) {
      if (value === undefined) continue
      const allowed = "only with durability: 'replicated'"
      throw invalid('invalid-option', { path: `redisStore.${name}`, value, allowed })
    }
    return undefined
  }
  if (!canWait) {
    const allowed = 'memory, unless the client has pipelined(commands)'
    throw invalid('invalid-option', { path: 'redisStore.durability', value: durability, allowed })
  }
  return {
    replicas: checkWhole(replicas ?? 1, 'redisStore.replicas', 1, 16),
    timeoutMs: checkWhole(
      replicasTimeoutMs ?? REPLICAS_TIMEOUT_MS_DEFAULT,
      'redisStore.replicasTimeoutMs',
      1,
      DURATION_MS_MAX,
    ),
  }
}

class Redis implements Store {
  readonly isRemote = true
  readonly front = frontStore
  readonly capabilities: StoreCapabilities
  readonly #prefix: string
  readonly #keys: RedisKeys
  readonly #time: ServerTime
  readonly #isCluster: boolean
  readonly #pipeline: Pipeline

  constructor(shared: Shared, pipeline: Pipeline) {
    const { caller, prefix, keys, time } = shared
    this.#prefix = prefix
    this.#keys = keys
    this.#time = time
    this.#isCluster = caller.isCluster
    this.#pipeline = pipeline
    const { nodeOfSlot } = caller
    this.capabilities = {
      leases: true,
      heartbeat: (id, lifetimeMs) => this.#heartbeat(id, lifetimeMs),
      ready: async (timeoutMs = TIMEOUT_MS_DEFAULT) =>
        pipeline.ready(checkWhole(timeoutMs, 'ready', 1, DURATION_MS_MAX)),
      bounded: (bounds) => new Redis(shared, pipeline.bounded(bounds)),
      times: () => pipeline.times(),
      ...(caller.isCluster && {
        sameShard: (group) => isOneSlot(group.map((counter) => keys.ofCounter(counter))),
      }),
      ...(nodeOfSlot !== undefined && {
        shardOf: (counter) => nodeOfSlot(slotOf(keys.ofCounter(counter))) ?? '',
      }),
    }
  }

  chargeOne(counter: Counter, cost: number, done: Callback): undefined {
    this.#pipeline.send(this.#keys.ofCounter(counter), counter.limit, cost, done)
  }

  charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    return new Promise((resolve, reject) => {
      const [first] = group
      if (group.length === 1 && mode === 'all' && first !== undefined && !first.hold) {
        this.chargeOne(first, first.cost, { resolve: (decision) => resolve([decision]), reject })
        return
      }
      this.#pipeline.sendGroup(this.#keysOf(group), group, mode, { resolve, reject })
    })
  }

  async adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    const limits = new LimitArgs()
    const keys = this.#keysOf(group)
    const adjustments = group.flatMap(({ limit, units, release = '', renews }) => [
      limits.numberOf(limit),
      String(units),
      renews?.id ?? release,
      String(renews?.ttlMs ?? 0),
    ])
    const args = [this.#time.argument(), ...limits.write(this.#time.now()), ...adjustments]
    const { reply, isConfirmed } = await this.#pipeline.run({ script: adjustScript, keys, args })
    this.#time.learn(reply)
    const decisions = group.map(({ limit }, at) => decisionAt(reply, at, limit))
    return isConfirmed ? decisions : decisions.map(unconfirmed)
  }

  async reset(group: readonly Counter[]): Promise<void> {
    await this.#pipeline.run({ script: resetScript, keys: this.#keysOf(group), args: [] })
  }

  /** The caller closes the client. */
  close(): void {}

  async #heartbeat(id: string, lifetimeMs: number): Promise<number> {
    const keys = [`${this.#prefix}nodes`]
    const call = { script: heartbeatScript, keys, args: [id, String(lifetimeMs)] }
    return Number((await this.#pipeline.run(call)).reply)
  }

  #keysOf(group: readonly Counter[]): string[] {
    const keys = group.map((counter) => this.#keys.ofCounter(counter))
    if (this.#isCluster && keys.length > 1) refuseSpread(keys)
    return keys
  }
}

function isOneSlot(keys: readonly string[]): boolean {
  const slot = slotOf(keys[0] as string)
  return keys.every((key) => slotOf(key) === slot)
}

/** No script can reach two slots. */
function refuseSpread(keys: readonly string[]): void {
  if (isOneSlot(keys)) return
  const message =
    'on Redis Cluster, the limits of one group must be in one slot: name the limit that the ' +
    "others belong to, such as within: 'org'"
  throw new TidegateError('wrong-use', message)
}
