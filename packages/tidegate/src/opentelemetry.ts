/** The entry point `tidegate/opentelemetry`: spans of limiters, for `@opentelemetry/api`. */

export { type AttributeName, attributeNames, checkAttributes } from './opentelemetry/attributes.ts'
export {
  type LimiterTraces,
  limiterTraces,
  type TraceOptions,
} from './opentelemetry/limiter-traces.ts'
export { SpanClock } from './opentelemetry/span-clock.ts'
export { type CheckTrace, type CommandReport, StoreSpans } from './opentelemetry/store-spans.ts'
