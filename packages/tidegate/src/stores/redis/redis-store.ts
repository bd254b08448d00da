/**
 * The Redis store: the same decisions as the memory store, shared by any number of processes. A
 * group is judged by one script, which Redis runs without anything in between; time is the
 * server's.
 *
 * It rejects with the reason if a call fails, and if the server is silent for `timeoutMs`; what a
 * failure means for a request is its caller's decision. The client is the user's: it is neither
 * opened nor closed here.
 *
 * `bounded` gives each guard a view with bounds and a queue of its own. All views of a store share
 * its client, its keys and its notion of time.
 */

import type { Limit } from '../../algorithms/limit.ts'
import type { Clock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { checkOneOf, checkOptions, checkWhole } from '../../policy/options.ts'
import type {
  Adjustment,
  CallBounds,
  Charge,
  ChargeMode,
  Counter,
  Receiver,
  Store,
  StoreTimes,
} from '../store.ts'

import { PlainCharge, type Waiting } from './batch.ts'
import { type RedisCaller, type RedisClient, redisCaller } from './client.ts'
import { slotOf } from './cluster-slot.ts'
import { Dispatch } from './dispatch.ts'
import { Readiness } from './readiness.ts'
import { RedisKeys } from './redis-key.ts'
import { RoundTrip } from './round-trip.ts'
import { decisionAt, LimitArgs, type ScriptCall, unconfirmed } from './script-call.ts'
import { type RunnerOptions, ScriptRunner } from './script-runner.ts'
import { adjustScript, heartbeatScript, resetScript } from './scripts.generated.ts'
import { ServerTime } from './server-time.ts'

export type { RedisClient } from './client.ts'

export interface RedisStoreOptions {
  /** What all keys begin with. Default: `tg`. */
  readonly prefix?: string
  /**
   * `replicated` waits after every charge until replicas have it, and marks decisions that they did
   * not confirm in time as degraded. Default: `memory`, as Redis itself answers.
   */
  readonly durability?: Durability
  /** With `replicated`: how many replicas are to confirm. Default: 1. */
  readonly replicas?: number
  /** With `replicated`: how long to wait for them. Default: 10. */
  readonly replicasTimeoutMs?: number
  /**
   * How long the server may stay silent after a command, if no guard sets another time. Default:
   * 1,000.
   */
  readonly timeoutMs?: number
  /** For tests: time instead of the server's. */
  readonly clock?: Clock
}

export const durabilities = ['memory', 'replicated'] as const

export type Durability = (typeof durabilities)[number]

const known = ['prefix', 'durability', 'replicas', 'replicasTimeoutMs', 'timeoutMs', 'clock']

const PREFIX_DEFAULT = 'tg'

/** Braces would be a hash tag and put all keys into one slot. */
const PREFIX = /^[A-Za-z0-9_.:-]{1,32}$/

/** Long enough for a slow server; guards set a shorter time for decisions. */
const TIMEOUT_MS_DEFAULT = 1_000

/** Calls without a guard that wait to be sent, 600 bytes each. */
const WAITING_MAX = 50_000

/** So that the answer still comes within the 15 ms that a decision may take. */
const REPLICAS_TIMEOUT_MS_DEFAULT = 10

const DURATION_MS_MAX = 60_000

export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): Store {
  checkOptions(options, 'redisStore', known)
  const { prefix = PREFIX_DEFAULT, timeoutMs = TIMEOUT_MS_DEFAULT, clock } = options
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    const allowed = '1 to 32 of the characters A-Z a-z 0-9 _ . : -'
    throw invalid('invalid-option', { path: 'redisStore.prefix', value: prefix, allowed })
  }
  checkWhole(timeoutMs, 'redisStore.timeoutMs', 1, DURATION_MS_MAX)
  const replication = replicationOf(options)
  const caller = redisCaller(client)
  const time = new ServerTime(clock)
  const roundTrip = new RoundTrip()
  const readiness = new Readiness(caller, roundTrip, time, prefix)
  const keys = new RedisKeys(prefix)
  const shared = { caller, replication, prefix, keys, time, roundTrip, readiness }
  return new Redis(shared, timeoutMs, undefined)
}

/** Everything that the views of a store have in common. */
interface Shared {
  readonly caller: RedisCaller
  readonly replication: RunnerOptions['replication']
  readonly prefix: string
  readonly keys: RedisKeys
  readonly time: ServerTime
  readonly roundTrip: RoundTrip
  readonly readiness: Readiness
}

function replicationOf(options: RedisStoreOptions): RunnerOptions['replication'] {
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
  readonly canLease = true
  readonly shardOf?: (counter: Counter) => string
  readonly #shared: Shared
  readonly #runner: ScriptRunner
  readonly #keys: RedisKeys
  readonly #time: ServerTime
  readonly #isCluster: boolean
  readonly #dispatch: Dispatch
  /** How long calls wait for the first answer; undefined once that is settled. */
  #connectMs: number | undefined
  #connecting: Promise<void> | undefined

  constructor(shared: Shared, deadlineMs: number | undefined, bounds: CallBounds | undefined) {
    const { caller, replication, roundTrip, keys, time } = shared
    this.#shared = shared
    this.#runner = new ScriptRunner(caller, { deadlineMs, roundTrip, replication })
    this.#keys = keys
    this.#time = time
    this.#isCluster = caller.isCluster
    this.#connectMs = bounds?.connectMs
    const queue = { queueMs: bounds?.queueMs, queueMax: bounds?.queueMax ?? WAITING_MAX }
    const isShut = bounds !== undefined
    this.#dispatch = new Dispatch(this.#runner, time, caller.isCluster, queue, isShut)
    const { nodeOfSlot } = caller
    if (nodeOfSlot !== undefined) {
      this.shardOf = (counter) => nodeOfSlot(slotOf(this.#keys.ofCounter(counter))) ?? ''
    }
  }

  bounded(bounds: CallBounds): Store {
    return new Redis(this.#shared, bounds.deadlineMs, bounds)
  }

  times(): StoreTimes {
    return { roundTripMs: this.#shared.roundTrip.ms, deadlineMs: this.#runner.deadlineMs }
  }

  ready(timeoutMs = TIMEOUT_MS_DEFAULT): Promise<void> {
    return this.#shared.readiness.wait(checkWhole(timeoutMs, 'ready', 1, DURATION_MS_MAX))
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => Promise<Decision> {
    const tell = this.teller(name, limit)
    return (key, cost) => new Promise((resolve, reject) => tell(key, cost, { resolve, reject }))
  }

  teller(name: string, limit: Limit): (key: string, cost: number, receiver: Receiver) => void {
    const scope = this.#keys.scope(name, limit.algorithm)
    return (text, cost, receiver) => {
      const key = this.#keys.in(scope, text)
      this.#push(new PlainCharge(key, limit, cost, receiver), key)
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    return new Promise((resolve, reject) => {
      const [first] = group
      if (group.length === 1 && mode === 'all' && first !== undefined && !first.hold) {
        const key = this.#keys.ofCounter(first)
        const { limit, cost } = first
        const receiver = { resolve: (decision: Decision) => resolve([decision]), reject }
        this.#push(new PlainCharge(key, limit, cost, receiver), key)
        return
      }
      const keys = this.#keysOf(group)
      this.#push({ keys, group, mode, resolve, reject }, keys[0] as string)
    })
  }

  async adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    const limits = new LimitArgs()
    const keys = this.#keysOf(group)
    const adjustments = group.flatMap(({ limit, units, release = '' }) => [
      limits.numberOf(limit),
      String(units),
      release,
    ])
    const args = [this.#time.argument(), ...limits.write(this.#time.now()), ...adjustments]
    const { reply, isConfirmed } = await this.#run({ script: adjustScript, keys, args })
    this.#time.learn(reply)
    const decisions = group.map(({ limit }, at) => decisionAt(reply, at, limit))
    return isConfirmed ? decisions : decisions.map(unconfirmed)
  }

  async reset(group: readonly Counter[]): Promise<void> {
    await this.#run({ script: resetScript, keys: this.#keysOf(group), args: [] })
  }

  async heartbeat(id: string, lifetimeMs: number): Promise<number> {
    const keys = [`${this.#shared.prefix}nodes`]
    const call = { script: heartbeatScript, keys, args: [id, String(lifetimeMs)] }
    return Number((await this.#run(call)).reply)
  }

  liesTogether(group: readonly Counter[]): boolean {
    return !this.#isCluster || isOneSlot(group.map((counter) => this.#keys.ofCounter(counter)))
  }

  /** The client is the user's, who closes it. */
  close(): void {}

  #push(waiting: Waiting, key: string): void {
    this.#dispatch.push(waiting, key)
    if (this.#connectMs !== undefined) this.#connecting ??= this.#connect(this.#connectMs)
  }

  /** On first use, calls wait in their lanes until the servers have answered once. */
  async #connect(connectMs: number): Promise<void> {
    try {
      const { readiness } = this.#shared
      if (!readiness.isSettled) await readiness.firstUse(connectMs)
    } catch (error) {
      this.#dispatch.rejectAll(error)
    }
    this.#connectMs = undefined
    this.#dispatch.open()
  }

  async #run(call: ScriptCall): Promise<{ reply: unknown; isConfirmed: boolean }> {
    if (this.#connectMs !== undefined) {
      this.#connecting ??= this.#connect(this.#connectMs)
      await this.#connecting
    }
    return new Promise((resolve, reject) => {
      const onReply = (reply: unknown, isConfirmed: boolean) => resolve({ reply, isConfirmed })
      this.#runner.run(call, { onReply, onError: reject })
    })
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
    'on Redis Cluster, the limits of one limiter must lie together: name the limit that the ' +
    "others belong to, such as within: 'org'"
  throw new TidegateError('wrong-use', message)
}
