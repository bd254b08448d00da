/**
 * The limit of failed authentication: an address that keeps sending invalid credentials is refused
 * before further ones are checked. Successes cost nothing.
 *
 * Counters are in the memory of this process. They are read before every check of credentials, and
 * a round trip to a shared store would double the latency of all authenticated requests.
 */

import {
  type Decision,
  type Evaluation,
  type Limit,
  type MaybePromise,
  memoryStore,
  slidingWindow,
} from 'tidegate'

/** Failures per milliseconds; `off` counts none. */
export type FailureSettings = 'off' | { readonly limit: number; readonly per: number }

/** The name of the limit in responses and logs. */
export const FAILURES_LIMIT = 'auth.failures'

/** Addresses with failures: about 10 MB. Beyond it, idle ones are evicted. */
const CLIENTS_MAX = 100_000

/** Pending attempts of one client, and attempts that wait for them. */
interface Attempts {
  underWay: number
  /** Bounded by the requests in flight of the process. */
  readonly waiting: (() => void)[]
}

export class FailedAttempts {
  readonly #store = memoryStore({ keysMax: CLIENTS_MAX })
  readonly #attempts = new Map<string, Attempts>()
  #limit: Limit | undefined

  constructor(section: FailureSettings) {
    this.use(section)
  }

  /** Replaces the numbers; failures so far still count. */
  use(section: FailureSettings): void {
    this.#limit =
      section === 'off'
        ? undefined
        : slidingWindow({ limit: section.limit, per: `${section.per}ms` })
  }

  /** The refusal of a client with too many failures; undefined if it may try. */
  refusalOf(client: string): Evaluation<Decision> | undefined {
    const limit = this.#limit
    if (limit === undefined || this.#store.size === 0) return undefined
    const decision = this.#charge(client, limit, 'peek')
    if (decision.allowed) return undefined
    return { decision, applied: [{ name: FAILURES_LIMIT, limit, decision }] }
  }

  /** Charges a failure. */
  note(client: string): void {
    if (this.#limit !== undefined) this.#charge(client, this.#limit, 'all')
  }

  /**
   * Runs `attempt` and charges its failure. At most as many run at once as failures are left; the
   * others wait, so that a burst cannot exceed the limit and valid credentials are not refused.
   */
  attempt<T>(
    client: string,
    attempt: () => MaybePromise<T>,
    isFailure: (result: T) => boolean,
  ): MaybePromise<T | Evaluation<Decision>> {
    const refusal = this.refusalOf(client)
    if (refusal !== undefined) return refusal
    if (this.#hasRoom(client)) return this.#run(client, attempt, isFailure)
    return new Promise((resolve, reject) => {
      this.#attempts.get(client)?.waiting.push(() => {
        try {
          resolve(this.refusalOf(client) ?? this.#run(client, attempt, isFailure))
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  #run<T>(
    client: string,
    attempt: () => MaybePromise<T>,
    isFailure: (result: T) => boolean,
  ): MaybePromise<T> {
    const result = attempt()
    if (!(result instanceof Promise)) {
      if (isFailure(result)) this.note(client)
      return result
    }
    const attempts = this.#attempts.get(client) ?? { underWay: 0, waiting: [] }
    this.#attempts.set(client, attempts)
    attempts.underWay += 1
    const end = () => {
      attempts.underWay -= 1
      this.#wake(client, attempts)
    }
    return result.then(
      (found) => {
        if (isFailure(found)) this.note(client)
        end()
        return found
      },
      (error: unknown) => {
        end()
        throw error
      },
    )
  }

  #wake(client: string, attempts: Attempts): void {
    while (attempts.waiting.length > 0 && this.#hasRoom(client)) attempts.waiting.shift()?.()
    if (attempts.underWay === 0) this.#attempts.delete(client)
  }

  /** Also true if nothing is left: then an attempt is refused and need not wait. */
  #hasRoom(client: string): boolean {
    const { underWay = 0 } = this.#attempts.get(client) ?? {}
    if (this.#limit === undefined || underWay === 0) return true
    const { allowed, remaining } = this.#charge(client, this.#limit, 'peek')
    return !allowed || underWay < remaining
  }

  #charge(client: string, limit: Limit, mode: 'all' | 'peek'): Decision {
    const charge = { name: FAILURES_LIMIT, limit, key: client, cost: 1 }
    const [decision] = this.#store.charge([charge], mode)
    if (decision === undefined) throw new Error('the memory store returned no decision')
    return decision
  }
}
