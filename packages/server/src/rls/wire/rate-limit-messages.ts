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
  /** If absent, the hits of the request. 0 charges nothing. */
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
  /** Undefined without a limit. */
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

/** A malformed request: INVALID_ARGUMENT. */
export class InvalidRequest extends Error {
  override readonly name = 'InvalidRequest'
}

/** A call of Envoy has one descriptor for each rate limit of its route, which are few. */
export const DESCRIPTORS_MAX = 64

/** A descriptor has one entry for each level of a rule, which are few. */
export const ENTRIES_MAX = 16

/** The longest key or value: headers are shorter, and every counter takes memory. */
export const TEXT_BYTES_MAX = 8_192

/** Hits above this are never granted; the store counts exactly up to here. */
export const HITS_MAX = 2 ** 50
