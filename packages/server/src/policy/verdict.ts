/** What the limits of a policy say to one request. Plain values; doors turn it into an answer. */

import type { AppliedLimit, Decision, Evaluation } from 'tidegate'

/**
 * `admitted`: goes on. `denied`: a limit said no (429). `unavailable`: a limit that refuses while
 * its store is away said no (503). `keyless`: a limit needs a key that the request does not have
 * (401).
 */
export type Outcome = 'admitted' | 'denied' | 'unavailable' | 'keyless'

export interface Verdict {
  readonly outcome: Outcome
  /** The limits that count, and the decision of the most restrictive; undefined without any. */
  readonly evaluation: Evaluation<Decision> | undefined
  /**
   * What limits in shadow mode would have said to a request that the others admitted. A remote
   * store is asked without keeping the request waiting: until `shadowing` is over, some may be
   * missing.
   */
  readonly shadowed: readonly AppliedLimit[]
  /** Never rejects; undefined where `shadowed` is complete. */
  readonly shadowing: Promise<void> | undefined
  /** The limit that refused, by its name. */
  readonly refusedBy: string | undefined
  /** Every limit that was looked at, with its key as a digest, for logs. */
  keys(): ReadonlyArray<{ readonly limit: string; readonly keyHash: string }>
  /** To be called when the request has ended, where it holds slots; more than once does nothing. */
  readonly release: (() => void) | undefined
}
