/** The options of idempotency keys, parsed once into complete, frozen settings. */

import { type Clock, steadyClock } from '../clock.ts'
import { invalid } from '../errors.ts'
import { type Duration, parseDuration } from '../limits/duration.ts'
import { checkBoolean, checkFunction, checkOneOf, checkOptions, checkWhole } from '../options.ts'
import { type Encryption, encryptionWith } from './encryption.ts'
import type { IdempotencyEvent } from './idempotency-event.ts'
import { KEPT_BYTES_MAX } from './stored-response.ts'
import { type IdempotencyStore, LEASE_MS_MAX } from './stores/idempotency-store.ts'
import { memoryIdempotencyStore } from './stores/memory-idempotency-store.ts'

/** What is done without an answer of the store. */
export const idempotencyFailureModes = ['refuse', 'execute'] as const

export type IdempotencyFailureMode = (typeof idempotencyFailureModes)[number]

/** The options that do not depend on a framework. */
export interface IdempotencyOptions {
  /** Default: the memory of this process. */
  readonly store?: IdempotencyStore
  /** How long a response is replayed. Default: 24h. */
  readonly ttl?: Duration
  /** True refuses requests without a key. Default: false. */
  readonly required?: boolean
  /** The methods that keys are for. Default: POST and PATCH. */
  readonly methods?: readonly string[]
  /** How long a repeated request waits for the one under way; then it gets 409. Default: 5s. */
  readonly wait?: Duration
  /** The time after which another request may take over from a dead owner. Default: 10s. */
  readonly lease?: Duration
  /** Without an answer of the store: refuse with 503, or execute. Default: `refuse`. */
  readonly onStoreError?: IdempotencyFailureMode
  /**
   * If an owner has left without a result, it may have executed the request: execute it again, or
   * refuse its key. Default: `execute`.
   */
  readonly onLostOwner?: IdempotencyFailureMode
  /** Statuses whose response is not kept: the request may be executed again. */
  readonly retryStatuses?: readonly number[]
  /** Header fields that are kept, besides those that describe the body. */
  readonly keptHeaders?: readonly string[]
  /** The largest body that is kept. Default: 262,144. */
  readonly responseBytesMax?: number
  /** The largest body of a request with a key. Default: 1,048,576. */
  readonly requestBytesMax?: number
  /** Replays that a sender may have per second. Default: 100. */
  readonly replaysPerSecondMax?: number
  /** One key of 32 bytes in base64, or several: the first encrypts, all decrypt. */
  readonly encryptionKeys?: string | readonly string[]
  /** Receives every outcome, for metrics and logs. */
  readonly observer?: (event: IdempotencyEvent) => void
  /** For tests. */
  readonly clock?: Clock
}

export interface IdempotencySettings {
  readonly store: IdempotencyStore
  readonly ttlMs: number
  readonly isRequired: boolean
  readonly methods: ReadonlySet<string>
  readonly waitMs: number
  readonly leaseMs: number
  readonly executesOnStoreError: boolean
  readonly takesOver: boolean
  readonly retryStatuses: ReadonlySet<number>
  readonly keptHeaders: ReadonlySet<string>
  readonly responseBytesMax: number
  readonly requestBytesMax: number
  readonly replaysPerSecondMax: number
  readonly encryption: Encryption | undefined
  readonly observer: (event: IdempotencyEvent) => void
  readonly clock: Clock
}

export const idempotencyOptionNames = [
  ...(['store', 'ttl', 'required', 'methods', 'wait', 'lease', 'onStoreError'] as const),
  ...(['onLostOwner', 'retryStatuses', 'keptHeaders', 'responseBytesMax'] as const),
  ...(['requestBytesMax', 'replaysPerSecondMax', 'encryptionKeys', 'observer', 'clock'] as const),
]

/** The path of the options in messages. */
export const IDEMPOTENCY_PATH = 'idempotency'

/** These statuses say that the request was not executed, or that it may be sent again. */
export const retryStatusesDefault: readonly number[] = [408, 425, 429, 503]

/**
 * Fields that belong to the result. Cookies, dates and rate limits belong to one response, and are
 * not replayed.
 */
const keptHeaderNames = [
  ...['content-type', 'content-encoding', 'content-language', 'content-disposition'],
  ...['content-location', 'location', 'link', 'etag', 'last-modified', 'cache-control', 'vary'],
  ...['www-authenticate', 'allow', 'retry-after', 'deprecation', 'sunset'],
]

/** Fields that frame a message, or that would give one client the session of another. */
const neverKept: ReadonlySet<string> = new Set([
  ...['connection', 'content-length', 'transfer-encoding', 'trailer', 'upgrade', 'keep-alive'],
  ...['set-cookie', 'date', 'te', 'proxy-authenticate', 'idempotent-replayed'],
])

const RESPONSE_BYTES_DEFAULT = 256 * 1_024
const REQUEST_BYTES_DEFAULT = 1_024 ** 2

/** Bodies are held in memory while they are read. */
export const REQUEST_BYTES_MAX = 64 * 1_024 ** 2

const WAIT_MS_MAX = 60_000

/** Renewals are a third of it apart; below this, a busy process would lose its keys. */
const LEASE_MS_MIN = 300

const REPLAYS_DEFAULT = 100

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/

export function parseIdempotencyOptions(
  options: IdempotencyOptions,
  more: readonly string[] = [],
): IdempotencySettings {
  const path = IDEMPOTENCY_PATH
  checkOptions(options, path, [...idempotencyOptionNames, ...more])
  const leaseMs = within(options.lease ?? '10s', `${path}.lease`, LEASE_MS_MIN, LEASE_MS_MAX)
  const ttlMs = parseDuration(options.ttl ?? '24h', `${path}.ttl`)
  if (ttlMs < leaseMs) {
    const allowed = 'at least as long as lease'
    throw invalid('invalid-option', { path: `${path}.ttl`, value: options.ttl, allowed })
  }
  const mode = (name: 'onStoreError' | 'onLostOwner', initial: IdempotencyFailureMode) =>
    checkOneOf(options[name] ?? initial, `${path}.${name}`, idempotencyFailureModes) === 'execute'
  const whole = (name: keyof IdempotencyOptions, initial: number, max: number) =>
    checkWhole(options[name] ?? initial, `${path}.${name}`, 1, max)
  const observer = checkFunction(options.observer, `${path}.observer`)
  return Object.freeze({
    store: storeOf(options.store, `${path}.store`),
    ttlMs,
    isRequired: checkBoolean(options.required, `${path}.required`),
    methods: methodsOf(options.methods ?? ['POST', 'PATCH'], `${path}.methods`),
    waitMs:
      options.wait === '0ms' ? 0 : within(options.wait ?? '5s', `${path}.wait`, 1, WAIT_MS_MAX),
    leaseMs,
    executesOnStoreError: mode('onStoreError', 'refuse'),
    takesOver: mode('onLostOwner', 'execute'),
    retryStatuses: statusesOf(options.retryStatuses, `${path}.retryStatuses`),
    keptHeaders: keptNames(options.keptHeaders ?? [], `${path}.keptHeaders`),
    responseBytesMax: whole('responseBytesMax', RESPONSE_BYTES_DEFAULT, KEPT_BYTES_MAX),
    requestBytesMax: whole('requestBytesMax', REQUEST_BYTES_DEFAULT, REQUEST_BYTES_MAX),
    replaysPerSecondMax: whole('replaysPerSecondMax', REPLAYS_DEFAULT, 1_000_000),
    encryption:
      options.encryptionKeys === undefined
        ? undefined
        : encryptionWith(options.encryptionKeys, `${path}.encryptionKeys`),
    observer: observer === undefined ? () => undefined : harmless(observer),
    clock: options.clock ?? steadyClock,
  })
}

function within(value: unknown, path: string, minMs: number, maxMs: number): number {
  const ms = parseDuration(value, path)
  if (ms >= minMs && ms <= maxMs) return ms
  throw invalid('invalid-option', { path, value, allowed: `from ${minMs} ms to ${maxMs} ms` })
}

function storeOf(store: IdempotencyStore | undefined, path: string): IdempotencyStore {
  if (store === undefined) return memoryIdempotencyStore()
  if (typeof store?.claim === 'function' && typeof store.complete === 'function') return store
  const allowed = 'a store of memoryIdempotencyStore or redisIdempotencyStore'
  throw invalid('invalid-option', { path, value: store, allowed })
}

function methodsOf(methods: readonly string[], path: string): ReadonlySet<string> {
  for (const method of listOf(methods, path)) {
    if (/^[A-Z]{1,32}$/.test(String(method))) continue
    throw invalid('invalid-option', { path, value: method, allowed: 'methods such as POST' })
  }
  return new Set(methods)
}

function statusesOf(given: readonly number[] | undefined, path: string): ReadonlySet<number> {
  const statuses = given ?? retryStatusesDefault
  for (const status of listOf(statuses, path)) checkWhole(status, path, 200, 599)
  return new Set(statuses)
}

function keptNames(given: readonly string[], path: string): ReadonlySet<string> {
  const names = listOf(given, path).map((name) => String(name).toLowerCase())
  for (const name of names) {
    if (token.test(name) && !neverKept.has(name)) continue
    const allowed = `names of header fields, and none of ${[...neverKept].join(', ')}`
    throw invalid('invalid-option', { path, value: name, allowed })
  }
  return new Set([...keptHeaderNames, ...names])
}

const LIST_MAX = 64

function listOf<T>(list: readonly T[], path: string): readonly T[] {
  if (Array.isArray(list) && list.length <= LIST_MAX) return list
  throw invalid('invalid-option', { path, value: list, allowed: `a list of at most ${LIST_MAX}` })
}

/** A broken observer must not fail a request. */
function harmless(observer: (event: IdempotencyEvent) => void) {
  return (event: IdempotencyEvent) => {
    try {
      observer(event)
    } catch {
      // The request goes on.
    }
  }
}
