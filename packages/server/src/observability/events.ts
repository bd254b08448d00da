/**
 * Everything that a service reports about itself, as one stream. The composition root makes the
 * emitter and hands it to all parts; logs subscribe to it, and metrics can. Requests that get no
 * line, which are most, emit nothing.
 */

import type { LimiterEvent } from 'tidegate'
import type { LogEvent, TrafficEvent } from './traffic-events.ts'

export type ServiceEvent =
  | StoreEvent
  | LimitsEvent
  | OverloadEvent
  | ConfigEvent
  | ControlEvent
  | KeyEvent
  | RegionEvent
  | TrafficEvent
  | LogEvent
  /** A setting has no effect. */
  | { readonly type: 'setting-ignored'; readonly text: string }
  /** A failure that should not happen, and that did not stop the service. */
  | { readonly type: 'error'; readonly error: unknown }
  /** Spans cannot be exported, or can again: then there is no problem. */
  | { readonly type: 'trace-export'; readonly url: string; readonly problem: string | undefined }
  /** A warning of the process, such as one of the library about an outage. */
  | { readonly type: 'process-warning'; readonly code: string; readonly reason: string }

export type StoreEvent =
  | {
      readonly type: 'store'
      /** The name of the store; empty if the service has only one. */
      readonly store: string
      readonly event: LimiterEvent
    }
  /** A connection has failed; the client connects again by itself. */
  | { readonly type: 'store-connection'; readonly store: string; readonly error: Error }

export type LimitsEvent =
  /** A tier could not be looked up, so the last known or the default one applies. */
  | { readonly type: 'tier-unknown'; readonly reason: string; readonly detail: string }
  /** The store has failed for a limit in shadow mode. */
  | { readonly type: 'shadow-failed'; readonly limit: string }

export type OverloadEvent =
  /** The process refuses requests from now on. */
  | { readonly type: 'overloaded'; readonly delayMs: number; readonly requests: number }
  | {
      readonly type: 'overload-ended'
      readonly forMs: number
      /** Requests that were refused, by priority. */
      readonly shed: Readonly<Record<string, number>>
    }

export type ConfigEvent =
  /** A policy or configuration is live. `limits` can refuse a request. */
  | {
      readonly type: 'config-applied'
      readonly version: string
      readonly limits: number
      readonly limitsBefore: number
    }
  /** The version before stays live. */
  | { readonly type: 'config-refused'; readonly problems: readonly string[] }
  /** These sections take effect after a restart only. */
  | { readonly type: 'config-needs-restart'; readonly sections: readonly string[] }

export type ControlEvent =
  /** The store of operators' changes does not answer, or answers again. */
  | {
      readonly type: 'control-contact'
      readonly place: string
      readonly isReachable: boolean
      readonly problem: string
    }
  /** Something about the control plane that an operator should know. */
  | { readonly type: 'control-note'; readonly text: string }
  /** An attempt of an operator; `record` has no keys and no secrets. */
  | { readonly type: 'audit'; readonly record: object }
  /** Changes of operators are live. `problems` are about those that were left out. */
  | {
      readonly type: 'live-entries'
      readonly overrides: number
      readonly blocks: number
      readonly problems: readonly string[]
    }

/** The store of idempotency keys has failed, or an owner of a key was replaced. */
export interface KeyEvent {
  readonly type: 'idempotency'
  readonly problem: 'unavailable' | 'unprotected' | 'unsaved' | 'superseded'
  readonly reason: string
}

/** Another region answers, or no longer: then there is a problem. */
export interface RegionEvent {
  readonly type: 'region-link'
  readonly region: string
  readonly isUp: boolean
  readonly problem: string | undefined
}

/** Called in the middle of a decision: it is quick, and does not throw. */
export type Emit = (event: ServiceEvent) => void

/** The stream of one service. */
export class ServiceEvents {
  readonly #listeners: Emit[] = []

  /** Events before the first subscription are lost. */
  subscribe(listener: Emit): void {
    this.#listeners.push(listener)
  }

  readonly emit: Emit = (event) => {
    for (const listener of this.#listeners) listener(event)
  }
}
