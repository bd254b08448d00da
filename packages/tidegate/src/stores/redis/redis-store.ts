/**
 * The Redis store: the same decisions as the memory store, shared by any number of processes. A
 * group is judged by one script, which Redis runs without anything in between; time is the
 * server's.
 *
 * Groups that come while a command is under way travel together with the next one: one script call
 * judges many. A group that comes alone is sent at once. A command whose outcome is unknown is
 * never sent again; one that was refused because the server did not know the script is, with its
 * text.
 */

import { type Clock, systemClock } from '../../clock.ts'
import type { Decision } from '../../decision.ts'
import { invalid, TidegateError } from '../../errors.ts'
import { checkOptions } from '../../policy/options.ts'
import type { Adjustment, Charge, ChargeMode, Counter, Store } from '../store.ts'
import { type BatchCall, type Pending, writeCalls, writeGeneralCall } from './batch.ts'
import { type RedisCaller, type RedisClient, redisCaller } from './client.ts'
import { RedisKeys } from './redis-key.ts'
import { decisionAt, LimitArgs, type ScriptCall } from './script-call.ts'
import { adjustScript, resetScript } from './scripts.generated.ts'

export type { RedisClient } from './client.ts'

export interface RedisStoreOptions {
  /** What all keys begin with. Default: `tg`. */
  readonly prefix?: string
  /** For tests: time instead of the server's. */
  readonly clock?: Clock
}

const PREFIX_DEFAULT = 'tg'

/** Braces would be a hash tag and put all keys into one slot. */
const PREFIX = /^[A-Za-z0-9_.:-]{1,32}$/

/**
 * Groups in one command. A script call has a fixed price of some microseconds, which is shared by
 * then; a larger one would only hold up the other clients of the server, for longer than 0.3 ms.
 */
const BATCH_MAX = 128

/**
 * Commands under way at once. With one, server and process would wait for each other in turn; with
 * more than four, each carries too few groups to share the fixed price of a command.
 */
const IN_FLIGHT_MAX = 4

/**
 * Groups that wait to be sent. Each takes some 500 bytes; a server that is this far behind would
 * need more than a tenth of a second to judge them.
 */
const PENDING_MAX = 50_000

/** A calendar that is refused although the clocks agree better than this will be refused again. */
const SKEW_MS_MIN = 3_600_000

export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): Store {
  checkOptions(options, 'redisStore', ['prefix', 'clock'])
  const { prefix = PREFIX_DEFAULT, clock } = options
  if (typeof prefix !== 'string' || !PREFIX.test(prefix)) {
    const allowed = '1 to 32 of the characters A-Z a-z 0-9 _ . : -'
    throw invalid('invalid-option', { path: 'redisStore.prefix', value: prefix, allowed })
  }
  return new Redis(redisCaller(client), prefix, clock)
}

class Redis implements Store {
  readonly #caller: RedisCaller
  readonly #keys: RedisKeys
  readonly #testClock: Clock | undefined
  #pending: Pending[] = []
  #inFlight = 0
  #isScheduled = false
  /** The server's time less this process's, as of the last reply. */
  #offsetMs = 0

  constructor(caller: RedisCaller, prefix: string, testClock: Clock | undefined) {
    this.#caller = caller
    this.#keys = new RedisKeys(prefix)
    this.#testClock = testClock
  }

  charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    return new Promise((resolve, reject) => {
      const keys = group.map((charge) => this.#keyOf(charge))
      if (this.#caller.isCluster) {
        refuseSpread(keys)
        void this.#send([{ group, keys, mode, resolve, reject }])
        return
      }
      if (this.#pending.length >= PENDING_MAX) throw overloaded()
      this.#pending.push({ group, keys, mode, resolve, reject })
      if (!this.#isScheduled && this.#inFlight < IN_FLIGHT_MAX) this.#schedule()
    })
  }

  async adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    const limits = new LimitArgs()
    const keys = group.map((adjustment) => this.#keyOf(adjustment))
    if (this.#caller.isCluster) refuseSpread(keys)
    const adjustments = group.flatMap(({ limit, units, release = '' }) => [
      limits.numberOf(limit),
      String(units),
      release,
    ])
    const args = [this.#timeArg(), ...limits.write(this.#serverNow()), ...adjustments]
    const reply = await this.#call({ script: adjustScript, keys, args })
    return group.map(({ limit }, at) => decisionAt(reply, at, limit))
  }

  async reset(group: readonly Counter[]): Promise<void> {
    const keys = group.map((counter) => this.#keyOf(counter))
    if (this.#caller.isCluster) refuseSpread(keys)
    await this.#call({ script: resetScript, keys, args: [] })
  }

  /** The client is the user's, who closes it. */
  close(): void {}

  #keyOf({ name, limit, key }: Counter): string {
    return this.#keys.of(name, limit.algorithm, key)
  }

  /** After everything that is ready to run now, so that what comes together travels together. */
  #schedule(): void {
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.#flush()
    })
  }

  /** In parts, so that the server works on one while this process reads the reply to another. */
  #flush(): void {
    while (this.#pending.length > 0 && this.#inFlight < IN_FLIGHT_MAX) {
      const share = Math.ceil(this.#pending.length / (IN_FLIGHT_MAX - this.#inFlight))
      const batch = this.#pending.splice(0, Math.min(share, BATCH_MAX))
      this.#inFlight++
      void this.#send(batch).finally(() => {
        this.#inFlight--
        if (this.#pending.length > 0 && !this.#isScheduled) this.#schedule()
      })
    }
  }

  async #send(batch: readonly Pending[]): Promise<void> {
    try {
      const [first, ...others] = writeCalls(batch, this.#serverNow(), this.#timeArg())
      if (first === undefined) return
      if (others.length === 0) await this.#sendCall(first)
      else await Promise.all([first, ...others].map((call) => this.#sendCall(call)))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  async #sendCall(call: BatchCall): Promise<void> {
    try {
      const left = call.settle(await this.#call(call))
      if (left.length === 0) return
      await this.#sendCall(writeGeneralCall(left, this.#serverNow(), this.#timeArg()))
    } catch (error) {
      const serverNow = timeOfRefusal(error)
      if (serverNow === undefined || Math.abs(serverNow - this.#serverNow()) < SKEW_MS_MIN) {
        for (const { reject } of call.waiting) reject(error)
        return
      }
      // Refused before it wrote anything, because this process's clock is days off. Now it knows.
      this.#learnTime(serverNow)
      await this.#sendCall(writeGeneralCall(call.waiting, this.#serverNow(), this.#timeArg()))
    }
  }

  async #call({ script, keys, args }: ScriptCall): Promise<unknown> {
    const reply = await this.#caller.evalsha(script.sha1, keys, args).catch((error: unknown) => {
      // Refused before it ran, so that running it now is the first time.
      if (isNoScript(error)) return this.#caller.eval(script.text, keys, args)
      throw error
    })
    if (Array.isArray(reply)) this.#learnTime(Number(reply[0]))
    return reply
  }

  #learnTime(serverNow: number): void {
    this.#offsetMs = serverNow - systemClock.now()
  }

  #timeArg(): string {
    return this.#testClock === undefined ? '-1' : String(Math.floor(this.#testClock.now()))
  }

  #serverNow(): number {
    return this.#testClock?.now() ?? systemClock.now() + this.#offsetMs
  }
}

function overloaded(): TidegateError {
  const message = `the Redis store has ${PENDING_MAX} calls waiting; the server is too far behind`
  return new TidegateError('overloaded', message)
}

/** The server's time, where it refused a calendar because none of its windows holds it. */
function timeOfRefusal(error: unknown): number | undefined {
  const match = error instanceof Error ? /TIDEGATE-WINDOW (\d+)/.exec(error.message) : null
  return match === null ? undefined : Number(match[1])
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** The keys of several limits lie in different slots, and no script can reach two. */
function refuseSpread(keys: readonly string[]): void {
  if (keys.length === 1) return
  const message = 'on Redis Cluster, several limits in one limiter are not supported yet'
  throw new TidegateError('wrong-use', message)
}
