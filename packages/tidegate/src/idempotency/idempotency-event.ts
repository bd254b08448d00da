/** Events of idempotency keys, for metrics and logs. */

import type { IdempotencyProblemCode } from './problem.ts'

/** What became of a request with a key, or of the response of an execution. */
export type IdempotencyEvent =
  | { readonly type: 'executed' | 'replayed' | 'retried' }
  | { readonly type: 'refused'; readonly code: IdempotencyProblemCode }
  /** An execution has ended: its response is kept, its key released, or neither was possible. */
  | { readonly type: 'kept' | 'released' | 'not-kept' | 'superseded' }
  /** The store has failed. `unprotected`: a request is executed without it. */
  | { readonly type: 'unsaved' | 'unprotected' | 'unavailable'; readonly error: unknown }
