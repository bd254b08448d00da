/** The trace that a request belongs to. */

import type { TraceContext } from '../observability/trace-context.ts'
import type { TracedRequest } from '../observability/tracing/tracing.ts'
import { createContextKey } from './context.ts'

/**
 * Undefined while tracing is off: `traceparent` then passes the gateway unread. `spanId` is the
 * span of this request, or that of the caller if this request is not sampled.
 */
export const requestTrace = createContextKey<TraceContext | undefined>(undefined)

/** The span of the request; undefined if it is not sampled. */
export const requestSpan = createContextKey<TracedRequest | undefined>(undefined)
