/**
 * Idempotency keys, without a framework: a request with a key is executed once, and repeated
 * requests get the response of the first. A middleware converts its requests to `KeyedRequest`, and
 * reports the response of an execution to `Execution`.
 *
 * In one process, requests with the same key are led by one of them: the leader talks to the store,
 * the others wait for it. So a key has at most one command under way in each process.
 *
 * If an owner dies between executing a request and storing its response, the request is executed
 * again by default: at least once in that window. docs/idempotency.md has the details.
 */

import { randomInt, randomUUID } from '../runtime.ts'
import type { MaybePromise } from '../stores/store.ts'
import { digestOf } from './digest.ts'
import {
  type Execution,
  ExecutionOfKey,
  type Flight,
  type Owner,
  RENEWALS_PER_LEASE,
} from './execution.ts'
import type { IdempotencyEvent } from './idempotency-event.ts'
import {
  type IdempotencyOptions,
  type IdempotencySettings,
  parseIdempotencyOptions,
} from './idempotency-options.ts'
import { KeyGate, Lead, type Turn } from './key-gate.ts'
import { parseKey } from './parse-key.ts'
import {
  type IdempotencyProblem,
  type IdempotencyProblemCode,
  idempotencyProblem,
} from './problem.ts'
import { Renewals } from './renewals.ts'
import { ReplayGuard } from './replay-guard.ts'
import { type KeptResponse, readResponse, type UnkeptResponse } from './stored-response.ts'
import type { Claim, ClaimResult, KeyState } from './stores/idempotency-store.ts'

/** A request, as a middleware or a gateway presents it. */
export interface KeyedRequest {
  readonly method: string
  /** The path with its query. */
  readonly target: string
  /** The value of the field `Idempotency-Key`; undefined if there is none. */
  readonly keyField: string | undefined
  /** The sender, whose keys are its own; undefined if it is not known. */
  scope(): MaybePromise<string | undefined | null>
  /** All bytes of the body; undefined if there are more than `bytesMax`. Called at most once. */
  body(bytesMax: number): MaybePromise<Uint8Array | string | undefined>
}

export type Start =
  /** The request has no key: it is not concerned. */
  | { readonly kind: 'pass' }
  /** Execute the request, and report its response. */
  | { readonly kind: 'execute'; readonly execution: Execution }
  /** Send this response, with `Idempotent-Replayed: true`. */
  | { readonly kind: 'replay'; readonly response: KeptResponse }
  /** Send this problem. */
  | { readonly kind: 'refuse'; readonly problem: IdempotencyProblem }

export interface Idempotency {
  readonly settings: IdempotencySettings
  /** Requests with a key that are being executed or wait. */
  readonly inFlight: { readonly executing: number; readonly waiting: number }
  /** True if keys are for this method. */
  appliesTo(method: string): boolean
  /** Decides about a request. Never rejects because of the store. */
  start(request: KeyedRequest): Promise<Start>
  /** The state of a key of a sender, for operators; undefined if there is none. */
  look(scope: string, keyField: string): Promise<KeyState | undefined>
  /** Deletes a key of a sender, for operators; see `IdempotencyStore`. */
  forget(scope: string, keyField: string): Promise<boolean>
}

export const KEY_FIELD = 'idempotency-key'
export const REPLAYED_FIELD = 'idempotent-replayed'

export function createIdempotency(
  options: IdempotencyOptions = {},
  more: readonly string[] = [],
): Idempotency {
  return new KeyedRequests(parseIdempotencyOptions(options, more))
}

/**
 * Pauses between two looks at a key that another process works on: doubled, up to the longest. Only
 * the leader of a key looks, so that 5 s of waiting take about 15 looks of each process.
 */
const LOOK_MS_MIN = 15
const LOOK_MS_MAX = 400

/** Pauses are shorter by up to this share, so that many processes do not look at once. */
const LOOK_JITTER = 0.3

/** Seconds that a client should wait before it sends a request again that is under way. */
const RETRY_SECONDS = 1

/** The part of a scope that the guard of replays remembers. */
const SENDER_LENGTH_MAX = 256

const pass: Start = { kind: 'pass' }
const executed: IdempotencyEvent = { type: 'executed' }
const retried: IdempotencyEvent = { type: 'retried' }

interface Asked {
  /** The record of the key in the store. */
  readonly record: string
  readonly fingerprint: string
  readonly sender: string
  readonly endMs: number
}

class KeyedRequests implements Idempotency {
  readonly settings: IdempotencySettings
  readonly #gate: KeyGate
  readonly #guard: ReplayGuard
  readonly #flight: Flight

  constructor(settings: IdempotencySettings) {
    this.settings = settings
    this.#gate = new KeyGate(settings.clock)
    this.#guard = new ReplayGuard(settings.replaysPerSecondMax, settings.clock)
    const renewals = new Renewals(settings.clock, settings.leaseMs / RENEWALS_PER_LEASE)
    this.#flight = { executing: 0, renewals }
  }

  get inFlight() {
    return { executing: this.#flight.executing, waiting: this.#gate.waiting }
  }

  appliesTo(method: string): boolean {
    return this.settings.methods.has(method)
  }

  start(request: KeyedRequest): Promise<Start> {
    const { keyField } = request
    if (keyField === undefined) {
      return Promise.resolve(this.settings.isRequired ? this.#refuse('key-missing') : pass)
    }
    const key = parseKey(keyField)
    if (key === undefined) return Promise.resolve(this.#refuse('key-invalid'))
    // Callbacks, because most values are known at once, and each `await` takes a turn of its own.
    return new Promise((resolve, reject) => {
      const onScope = (scope: string | undefined | null): void => {
        if (scope === undefined || scope === null || scope === '') {
          resolve(this.#refuse('sender-unknown'))
          return
        }
        const onBody = (body: Uint8Array | string | undefined): void => {
          if (body === undefined) resolve(this.#refuse('body-too-large'))
          else whenKnown(this.#ask(request, scope, key, body), onAsked, reject)
        }
        whenKnown(request.body(this.settings.requestBytesMax), onBody, reject)
      }
      const onAsked = (asked: Asked): void => {
        if (!this.#guard.admits(asked.sender)) {
          resolve(this.#refuse('too-many-replays', RETRY_SECONDS))
          return
        }
        const turn = this.#gate.enter(asked.record, asked.fingerprint, asked.endMs)
        if (turn instanceof Lead) this.#lead(asked, turn, resolve)
        else resolve(this.#follow(asked, turn))
      }
      whenKnown(request.scope(), onScope, reject)
    })
  }

  #ask(
    { method, target }: KeyedRequest,
    scope: string,
    key: string,
    body: Uint8Array | string,
  ): MaybePromise<Asked> {
    const record = recordOf(scope, key)
    const fingerprint = digestOf([method, target, body])
    const sender = scope.slice(0, SENDER_LENGTH_MAX)
    const endMs = this.settings.clock.now() + this.settings.waitMs
    if (typeof record === 'string' && typeof fingerprint === 'string') {
      return { record, fingerprint, sender, endMs }
    }
    return Promise.all([record, fingerprint]).then(([name, print]) => {
      return { record: name, fingerprint: print, sender, endMs }
    })
  }

  async look(scope: string, keyField: string): Promise<KeyState | undefined> {
    const key = parseKey(keyField)
    return key === undefined ? undefined : this.settings.store.look(await recordOf(scope, key))
  }

  async forget(scope: string, keyField: string): Promise<boolean> {
    const key = parseKey(keyField)
    return key === undefined ? false : this.settings.store.forget(await recordOf(scope, key))
  }

  /** Waits for a request of this process with the same key, or leads those that follow. */
  async #follow(asked: Asked, entered: MaybePromise<Turn>): Promise<Start> {
    let turn = await entered
    for (;;) {
      if (turn.kind === 'settled') return this.#replay(turn.response, asked)
      if (turn.kind === 'too-late') return this.#refuse('in-progress', RETRY_SECONDS)
      if (turn.kind === 'lead') {
        const lead = turn
        return new Promise((resolve) => this.#lead(asked, lead, resolve))
      }
      if (turn.kind === 'other-request') {
        const start = await this.#look(asked)
        if (start !== undefined) return start
      }
      turn = await this.#gate.enter(asked.record, asked.fingerprint, asked.endMs)
    }
  }

  #lead(asked: Asked, lead: Lead, resolve: (start: MaybePromise<Start>) => void): void {
    const claim = this.#claimOf(asked)
    const onError = (error: unknown) => resolve(this.#onStoreError(asked, error, lead))
    const onResult = (result: ClaimResult) => {
      if (result.state === 'owned') {
        resolve(this.#execute(asked, claim.token, result.isRetry, lead))
        return
      }
      this.#onClaim(asked, lead, claim, result).then(resolve, onError)
    }
    try {
      const claiming = Promise.resolve(this.settings.store.claim(asked.record, claim))
      whenKnown(claiming, onResult, onError)
    } catch (error) {
      onError(error)
    }
  }

  #claimOf({ fingerprint }: Asked): Claim {
    const { leaseMs, ttlMs, takesOver } = this.settings
    return { token: randomUUID(), fingerprint, leaseMs, ttlMs, takesOver }
  }

  /** Claims again while another process works on the key. */
  async #onClaim(asked: Asked, lead: Lead, claim: Claim, first: ClaimResult): Promise<Start> {
    const { store, clock } = this.settings
    let result = first
    for (let pauseMs = LOOK_MS_MIN; ; pauseMs = Math.min(pauseMs * 2, LOOK_MS_MAX)) {
      if (result.state === 'owned') return this.#execute(asked, claim.token, result.isRetry, lead)
      if (result.state !== 'running') return this.#answer(result, asked, lead)
      const leftMs = asked.endMs - clock.now()
      if (leftMs <= 0) break
      const waitMs = Math.min(jittered(pauseMs), leftMs, result.leaseLeftMs + 1)
      await new Promise<void>((resolve) => void clock.schedule(resolve, waitMs))
      result = await store.claim(asked.record, claim)
    }
    lead.settle(undefined)
    return this.#refuse('in-progress', RETRY_SECONDS)
  }

  /** Looks at a key that a request with another fingerprint leads; undefined to try again. */
  async #look(asked: Asked): Promise<Start | undefined> {
    const { store, leaseMs, ttlMs, takesOver } = this.settings
    const { record, fingerprint } = asked
    try {
      const look = { token: '', fingerprint, leaseMs, ttlMs, takesOver }
      const result = await store.claim(record, look)
      if (result.state === 'other-request') return this.#refuse('key-reused')
      // The other request is refused then, and leaves the key to this one.
      await this.#gate.left(record, asked.endMs)
      return undefined
    } catch (error) {
      return this.#unavailable(error)
    }
  }

  async #answer(
    result: Exclude<ClaimResult, { state: 'owned' | 'running' }>,
    asked: Asked,
    lead: Lead,
  ): Promise<Start> {
    if (result.state === 'done') {
      const response = await readResponse(result.result, asked.record, this.settings.encryption)
      lead.settle(response)
      return this.#replay(response, asked)
    }
    lead.settle(undefined)
    return this.#refuse(result.state === 'other-request' ? 'key-reused' : 'outcome-unknown')
  }

  #replay(response: KeptResponse | UnkeptResponse, { sender }: Asked): Start {
    this.#guard.note(sender)
    if ('notKept' in response) {
      this.settings.observer({ type: 'refused', code: 'response-not-kept' })
      const known = response.status === 0 ? {} : { 'original-status': response.status }
      return { kind: 'refuse', problem: idempotencyProblem('response-not-kept', known) }
    }
    this.settings.observer({ type: 'replayed' })
    return { kind: 'replay', response }
  }

  #execute(asked: Asked, token: Owner['token'], isRetry: boolean, lead: Lead): Start {
    this.settings.observer(isRetry ? retried : executed)
    const { record, fingerprint } = asked
    const owner = { record, fingerprint, token, isRetry, lead }
    return { kind: 'execute', execution: new ExecutionOfKey(owner, this.settings, this.#flight) }
  }

  #onStoreError(asked: Asked, error: unknown, lead: Lead): Start {
    if (this.settings.executesOnStoreError) {
      this.settings.observer({ type: 'unprotected', error })
      return this.#execute(asked, undefined, false, lead)
    }
    lead.settle(undefined)
    return this.#unavailable(error)
  }

  #unavailable(error: unknown): Start {
    this.settings.observer({ type: 'unavailable', error })
    return this.#refuse('unavailable', RETRY_SECONDS)
  }

  #refuse(code: IdempotencyProblemCode, retrySeconds?: number): Start {
    this.settings.observer({ type: 'refused', code })
    const more = retrySeconds === undefined ? {} : { retry_after: retrySeconds }
    return { kind: 'refuse', problem: idempotencyProblem(code, more) }
  }
}

/** The name of the record of a key, from which neither can be read. */
function recordOf(scope: string, key: string): MaybePromise<string> {
  return digestOf([scope, key])
}

/** Calls `then` with the value: at once, unless it is a promise. */
function whenKnown<T>(
  value: MaybePromise<T>,
  then: (value: T) => void,
  reject: (error: unknown) => void,
): void {
  if (!(value instanceof Promise)) {
    then(value)
    return
  }
  value.then((known) => {
    try {
      then(known)
    } catch (error) {
      reject(error)
    }
  }, reject)
}

function jittered(pauseMs: number): number {
  return pauseMs * (1 - (LOOK_JITTER * randomInt(0, 1_000)) / 1_000)
}
