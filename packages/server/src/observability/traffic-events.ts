/**
 * Events that requests of clients cause. There can be as many as requests, so the emitter
 * asks a `LineBudget` first, and builds nothing for a request that gets no line.
 *
 * The fields of lines have the names of the log.
 */

import type { Door } from './metrics/door-metrics.ts'

export type TrafficEvent =
  | { readonly type: 'decision'; readonly level: 'info' | 'warn'; readonly line: DecisionLine }
  /** The gateway refused a request for another reason than a limit. */
  | {
      readonly type: 'request-refused'
      readonly level: 'info' | 'warn'
      readonly line: RefusalLine
    }
  /** A response broke off: the client has its status, but not all of its body. */
  | { readonly type: 'response-cut-off'; readonly line: CutOffLine }
  /** A connection was closed before it carried a request. */
  | {
      readonly type: 'connection-refused'
      /** A digest. */
      readonly client: string
      readonly reason: RefusedConnection
      readonly nodeId: string
    }
  /** A target of an upstream fails, is ejected, or comes back. */
  | {
      readonly type: 'target'
      readonly upstream: string
      readonly target: string
      readonly change: TargetChange
      readonly nodeId: string
    }
  /** An error that no stage of the gateway should have thrown. */
  | { readonly type: 'gateway-error'; readonly error: unknown; readonly requestId?: string }

export type LogEvent =
  /** Lines of the last second that were beyond the bound. */
  | { readonly type: 'lines-left-out'; readonly count: number; readonly nodeId: string }
  /** A log could not be written; its lines are counted and lost. */
  | { readonly type: 'log-failed'; readonly log: string; readonly reason: string }
  /** The file of a log was opened again, or could not be. */
  | { readonly type: 'log-reopened'; readonly log: string; readonly problem: string | undefined }

/** The reason why a connection is closed before it carries a request. */
export type RefusedConnection = 'connectionsMax' | 'connectionsPerIpMax' | 'heldOff'

/** A change of a target of an upstream. Fields in milliseconds end in `Ms`. */
export type TargetChange =
  | { readonly type: 'failing'; readonly reason: string }
  | {
      readonly type: 'ejected'
      readonly reason: string
      readonly failures: number
      readonly forMs: number
    }
  | { readonly type: 'recovered'; readonly downMs: number }
  | { readonly type: 'unhealthy'; readonly reason: string }
  | { readonly type: 'healthy' }

/** The sender and the subject of a request. */
export interface CallerFields {
  readonly request_id: string | null
  readonly trace_id: string | null
  /** A digest of the organisation, API key, user or address. */
  readonly client_id: string | null
  readonly api_key_hash: string | null
  /** Method and path; null for bytes that are not a request. */
  readonly endpoint: string | null
}

export interface PlaceFields {
  readonly region: string | null
  readonly node_id: string
}

export type LoggedOutcome =
  | 'allowed'
  | 'denied'
  | 'unavailable'
  | 'unauthenticated'
  | 'blocked'
  | 'forbidden'

export interface DecisionLine extends CallerFields, PlaceFields {
  readonly door: Door
  readonly outcome: LoggedOutcome
  /** The limit that refused, or the reason of a decision without the store. */
  readonly reason: string | null
  /** The limit that the next six fields belong to. */
  readonly limit_name?: string | null
  /** The digest of its key, as in top lists. */
  readonly key_hash?: string | null
  readonly counter?: number
  readonly limit?: number
  readonly window_sec?: number | null
  readonly reset_at?: string
  readonly fallback?: boolean
  readonly shadow_denied?: readonly string[]
  readonly store_ms: number
  readonly upstream_ms?: number
  /** Only in sampled lines: one line stands for `1 / sample_rate` decisions. */
  readonly sample_rate?: number
  /** The version of the policy. */
  readonly policy: string | null
}

export interface RefusalLine extends CallerFields, PlaceFields {
  readonly status: number
  readonly reason: string | undefined
  readonly priority?: string
  readonly upstream?: string
  readonly upstream_ms?: number
}

export interface CutOffLine extends CallerFields, PlaceFields {
  readonly status: number
  readonly reason: string
  readonly target: string
  readonly upstream?: string
  readonly upstream_ms?: number
}
