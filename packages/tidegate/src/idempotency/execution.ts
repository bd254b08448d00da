/**
 * One execution of a request with a key: keeps the lease while the handler works, and ends it with
 * the response, or without one. The token of the claim fences it: if another owner has taken over
 * because this one was too slow, the store refuses its response.
 */

import type { MaybePromise } from '../stores/store.ts'
import type { IdempotencyEvent } from './idempotency-event.ts'
import type { IdempotencySettings } from './idempotency-options.ts'
import type { Lead } from './key-gate.ts'
import { type IdempotencyProblem, idempotencyProblem } from './problem.ts'
import type { Renewable, Renewals } from './renewals.ts'
import {
  type KeptResponse,
  type NotKept,
  readResponse,
  type UnkeptResponse,
  writeResponse,
} from './stored-response.ts'
import type { Remains } from './stores/idempotency-store.ts'

export interface Execution {
  /** True if an owner before has begun the request: its limits were charged then. */
  readonly isRetry: boolean
  /**
   * Keeps the response of the handler, and resolves to what must be sent: that response, or that of
   * another owner. Never rejects.
   */
  finish(response: KeptResponse): Promise<Finished>
  /** The response is sent, and cannot be kept; the key is used up. Never rejects. */
  finishUnkept(status: number, reason: NotKept): Promise<void>
  /** Ends without a response: see `Remains`. Never rejects. */
  release(remains: Remains): Promise<void>
}

export type Finished =
  | { readonly kind: 'own' }
  | { readonly kind: 'other'; readonly response: KeptResponse }
  | { readonly kind: 'refuse'; readonly problem: IdempotencyProblem }

export interface Owner {
  readonly record: string
  readonly fingerprint: string
  /** Undefined if the store did not answer, and the request is executed without it. */
  readonly token: string | undefined
  readonly isRetry: boolean
  /** Gives the response to the requests of this process that wait for it. */
  readonly lead: Pick<Lead, 'settle'>
}

/** The executions of a process. */
export interface Flight {
  executing: number
  readonly renewals: Renewals
}

/** Renewals of a lease: one may fail, and the next still comes in time. */
export const RENEWALS_PER_LEASE = 3

/** A handler that has not answered by then never does: its lease is not renewed any longer. */
export const EXECUTION_MS_MAX = 600_000

/** Attempts to store a response after the first has failed, and the pause before each. */
const SAVES_MAX = 6
const SAVE_PAUSE_MS = 250

/** Looks at the result of another owner, and the pause between them. */
const LOOKS_MAX = 20
const LOOK_PAUSE_MS = 100

const own: Finished = { kind: 'own' }
const keptEvent: IdempotencyEvent = { type: 'kept' }
const notKept: IdempotencyEvent = { type: 'not-kept' }

export class ExecutionOfKey implements Execution, Renewable {
  readonly isRetry: boolean
  readonly #owner: Owner
  readonly #settings: IdempotencySettings
  readonly #flight: Flight
  readonly #startMs: number
  #hasEnded = false
  dueMs: number | undefined = undefined
  before: Renewable | undefined = undefined
  after: Renewable | undefined = undefined

  constructor(owner: Owner, settings: IdempotencySettings, flight: Flight) {
    this.isRetry = owner.isRetry
    this.#owner = owner
    this.#settings = settings
    this.#flight = flight
    this.#startMs = settings.clock.now()
    flight.executing += 1
    if (owner.token !== undefined) flight.renewals.add(this, this.#startMs)
  }

  finish(response: KeptResponse): Promise<Finished> {
    if (this.#hasEnded) return Promise.resolve(own)
    const { status } = response
    if (this.#settings.retryStatuses.has(status)) {
      // A limit that has denied the request was not charged, so the key is as good as new.
      return this.release(status === 429 ? 'unused' : 'retry').then(() => own)
    }
    this.#end()
    return this.#save(response, own, () => this.#resultOfOther())
  }

  async finishUnkept(status: number, reason: NotKept): Promise<void> {
    if (this.#hasEnded) return
    if (this.#settings.retryStatuses.has(status)) return this.release('retry')
    this.#end()
    await this.#save({ status, notKept: reason }, undefined, () => undefined)
  }

  async release(remains: Remains): Promise<void> {
    if (this.#hasEnded) return
    this.#end()
    const { store, ttlMs, observer } = this.#settings
    const { record, token } = this.#owner
    observer({ type: 'released' })
    try {
      if (token !== undefined) await store.release(record, { token, remains, ttlMs })
    } catch (error) {
      // The lease ends by itself.
      observer({ type: 'unsaved', error })
    }
    this.#owner.lead.settle(undefined)
  }

  #end(): void {
    this.#hasEnded = true
    this.#flight.renewals.remove(this)
    this.#flight.executing -= 1
  }

  /** Resolves to `kept`, or to the value of `superseded` if another owner has the key. */
  #save<T>(
    response: KeptResponse | UnkeptResponse,
    kept: T,
    superseded: () => MaybePromise<T>,
  ): Promise<T> {
    const { store, ttlMs, observer, encryption } = this.#settings
    const { record, fingerprint, token, lead } = this.#owner
    if (token === undefined) {
      lead.settle(response)
      return Promise.resolve(kept)
    }
    let save = (): MaybePromise<boolean> => true
    const onText = (result: string): MaybePromise<boolean> => {
      save = () => store.complete(record, { token, fingerprint, result, ttlMs })
      return save()
    }
    const onSaved = (isKept: boolean): MaybePromise<T> => {
      if (isKept) observer('notKept' in response ? notKept : keptEvent)
      lead.settle(isKept ? response : undefined)
      return isKept ? kept : superseded()
    }
    const onError = (error: unknown): T => {
      // The request is executed. Its sender gets the response, whatever becomes of the record.
      observer({ type: 'unsaved', error })
      lead.settle(response)
      this.#saveLater(save, SAVES_MAX)
      return kept
    }
    try {
      const text = writeResponse(response, record, encryption)
      const saving = typeof text === 'string' ? onText(text) : text.then(onText)
      return Promise.resolve(saving).then(onSaved, onError)
    } catch (error) {
      return Promise.resolve(onError(error))
    }
  }

  /** A short outage of the store must not cost the record. A repeated call does no harm. */
  #saveLater(save: () => MaybePromise<boolean>, attempts: number): void {
    if (attempts === 0) return
    this.#settings.clock.schedule(async () => {
      try {
        await save()
      } catch {
        this.#saveLater(save, attempts - 1)
      }
    }, SAVE_PAUSE_MS)
  }

  /** All senders of a key get the same response, also the client of an owner that was too slow. */
  async #resultOfOther(): Promise<Finished> {
    const { store, leaseMs, ttlMs, observer, clock, encryption } = this.#settings
    const { record, fingerprint } = this.#owner
    observer({ type: 'superseded' })
    const look = { token: '', fingerprint, leaseMs, ttlMs, takesOver: false }
    for (let left = LOOKS_MAX; left > 0; left--) {
      const found = await Promise.resolve(store.claim(record, look)).catch(() => undefined)
      if (found?.state === 'done') {
        const response = await readResponse(found.result, record, encryption)
        if ('notKept' in response) break
        return { kind: 'other', response }
      }
      await new Promise<void>((resolve) => void clock.schedule(resolve, LOOK_PAUSE_MS))
    }
    return { kind: 'refuse', problem: idempotencyProblem('in-progress', { retry_after: 1 }) }
  }

  renew(): void {
    void this.#renew()
  }

  async #renew(): Promise<void> {
    const { store, leaseMs, ttlMs, clock } = this.#settings
    const { record, token } = this.#owner
    if (token === undefined) return
    if (clock.now() - this.#startMs > EXECUTION_MS_MAX) {
      await this.release('unknown')
      return
    }
    try {
      await store.renew(record, { token, leaseMs, ttlMs })
    } catch {
      // The next renewal may succeed before the lease ends.
    }
    if (!this.#hasEnded) this.#flight.renewals.add(this, clock.now())
  }
}
