/** Events of limits at work, for logs and metrics. */

export type PolicyEvent =
  /** A request lacks the key of a limit. */
  | {
      readonly type: 'missing-key'
      readonly limit: string
      readonly action: 'deny' | 'skip' | 'fallback'
    }
  /** A tier could not be looked up; the last known or the default tier is used. */
  | {
      readonly type: 'tier-unknown'
      readonly reason: 'failed' | 'overloaded' | 'unknown-tier'
      readonly detail: string
    }
  /** A limit in shadow mode could not be charged. */
  | { readonly type: 'shadow-failed'; readonly limit: string; readonly error: unknown }

/** Called while a request waits for its decision: it must be quick and must not throw. */
export type PolicyObserver = (event: PolicyEvent) => void
