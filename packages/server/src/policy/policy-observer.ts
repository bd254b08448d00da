/** What is worth telling about the limits of a policy at work, for logs and metrics. */

export type PolicyEvent =
  /** A request had no key for a limit, and this became of it. */
  | {
      readonly type: 'keyless'
      readonly limit: string
      readonly action: 'deny' | 'skip' | 'fallback'
    }
  /** A tier could not be looked up, so that the last known or the default one holds. */
  | {
      readonly type: 'tier-unknown'
      readonly reason: 'failed' | 'overloaded' | 'unknown-tier'
      readonly detail: string
    }
  /** A limit in shadow mode could not be asked. */
  | { readonly type: 'shadow-failed'; readonly limit: string; readonly error: unknown }

/** Called in the middle of a decision, so it should be quick, and it must not throw. */
export type PolicyObserver = (event: PolicyEvent) => void
