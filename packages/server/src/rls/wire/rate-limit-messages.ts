/** The messages of `envoy.service.ratelimit.v3`, as plain values. */

import type { JsonObject } from './struct.ts'

export const codes = { unknown: 0, ok: 1, overLimit: 2 } as const

export interface DescriptorEntry {
  readonly key: string
  readonly value: string
}

export interface Descriptor {
  readonly entries: readonly DescriptorEntry[]
  /** A limit that the request brings along. */
  readonly limit: { readonly requestsPerUnit: number; readonly unit: number } | undefined
  /** Where absent, what the request says. 0 only looks. */
  readonly hitsAddend: number | undefined
  /** Gives hits back instead. */
  readonly isNegativeHits: boolean
}

export interface RateLimitRequest {
  readonly domain: string
  readonly descriptors: readonly Descriptor[]
  /** 0 stands for 1. */
  readonly hitsAddend: number
}

export interface CurrentLimit {
  readonly requestsPerUnit: number
  readonly unit: number
  readonly name: string
}

export interface DescriptorStatus {
  readonly code: number
  readonly currentLimit: CurrentLimit | undefined
  readonly limitRemaining: number
  /** Undefined where there is no window. */
  readonly resetSeconds: number | undefined
}

export interface Header {
  readonly key: string
  readonly value: string
}

export interface RateLimitResponse {
  readonly overallCode: number
  readonly statuses: readonly DescriptorStatus[]
  readonly headers: readonly Header[]
  readonly dynamicMetadata: JsonObject | undefined
}

/** A request that is refused before it is judged: INVALID_ARGUMENT. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest'
}

/** A call of Envoy has as many descriptors as its route has rate limits, which is few. */
export const DESCRIPTORS_MAX = 64

export const ENTRIES_MAX = 16

/** Of a key or value: headers that become values are shorter, and each is kept as a counter. */
export const TEXT_BYTES_MAX = 8_192

/** Hits above this are never granted; the store counts exactly up to here. */
export const HITS_MAX = 2 ** 50
