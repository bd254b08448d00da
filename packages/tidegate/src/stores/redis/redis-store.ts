/**
 * The Redis store: the same decisions as the memory store, shared by any number of processes. A
 * group is judged by one script, which Redis runs without anything in between; time is the
 * server's.
 *
 * It rejects with what became of a call, and within `timeoutMs`; what a failure means for a request
 * is decided by whoever uses it. The client is the user's: it is neither opened nor closed here.
 */

import type { Limit } from '../../algorithms/limit.ts'
import type { Clock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { checkOneOf, checkOptions, checkWhole } from '../../policy/options.ts'
import type { Adjustment, Charge, ChargeMode, Counter, Receiver, Store } from '../store.ts'
import { PlainCharge } from './batch.ts'
import { type RedisCaller, type RedisClient, redisCaller } from './client.ts'
import { slotOf } from './cluster-slot.ts'
import { Dispatch } from './dispatch.ts'
import { RedisKeys } from './redis-key.ts'
import { decisionAt, LimitArgs, type ScriptCall, unconfirmed } from './script-call.ts'
import { ScriptRunner } from './script-runner.ts'
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
  /** After this time a call is given up, whatever the client does. Default: 1,000. */
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

/** Long enough for a slow server; those who need an answer sooner do not wait for it. */
const TIMEOUT_MS_DEFAULT = 1_000

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
  const caller = redisCaller(client)
  const runner = new ScriptRunner(caller, { timeoutMs, replication: replicationOf(options) })
  return new Redis(runner, prefix, new ServerTime(clock), caller)
}

function replicationOf(options: RedisStoreOptions) {
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
  readonly #runner: ScriptRunner
  readonly #keys: RedisKeys
  readonly #nodesKey: string
  readonly #time: ServerTime
  readonly #isCluster: boolean
  readonly #dispatch: Dispatch

  constructor(runner: ScriptRunner, prefix: string, time: ServerTime, caller: RedisCaller) {
    this.#runner = runner
    this.#keys = new RedisKeys(prefix)
    this.#nodesKey = `${prefix}nodes`
    this.#time = time
    this.#isCluster = caller.isCluster
    this.#dispatch = new Dispatch(runner, time, caller.isCluster)
    const { nodeOfSlot } = caller
    if (nodeOfSlot !== undefined) {
      this.shardOf = (counter) => nodeOfSlot(slotOf(this.#keys.ofCounter(counter))) ?? ''
    }
  }

  charger(name: string, limit: Limit): (key: string, cost: number) => Promise<Decision> {
    const tell = this.teller(name, limit)
    return (key, cost) => new Promise((resolve, reject) => tell(key, cost, { resolve, reject }))
  }

  teller(name: string, limit: Limit): (key: string, cost: number, receiver: Receiver) => void {
    const scope = this.#keys.scope(name, limit.algorithm)
    return (text, cost, receiver) => {
      const key = this.#keys.in(scope, text)
      this.#dispatch.push(new PlainCharge(key, limit, cost, receiver), key)
    }
  }

  charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    return new Promise((resolve, reject) => {
      const [first] = group
      if (group.length === 1 && mode === 'all' && first !== undefined && !first.hold) {
        const key = this.#keys.ofCounter(first)
        const { limit, cost } = first
        const receiver = { resolve: (decision: Decision) => resolve([decision]), reject }
        this.#dispatch.push(new PlainCharge(key, limit, cost, receiver), key)
        return
      }
      const keys = this.#keysOf(group)
      this.#dispatch.push({ keys, group, mode, resolve, reject }, keys[0] as string)
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
    const keys = [this.#nodesKey]
    const call = { script: heartbeatScript, keys, args: [id, String(lifetimeMs)] }
    return Number((await this.#run(call)).reply)
  }

  liesTogether(group: readonly Counter[]): boolean {
    return !this.#isCluster || isOneSlot(group.map((counter) => this.#keys.ofCounter(counter)))
  }

  /** The client is the user's, who closes it. */
  close(): void {}

  #run(call: ScriptCall): Promise<{ reply: unknown; isConfirmed: boolean }> {
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
