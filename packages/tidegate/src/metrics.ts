/** The entry point `tidegate/metrics`: metrics of limiters, for any registry. */

export {
  Counter,
  counterFamily,
  type Exemplar,
  Family,
  type FamilyOptions,
  gauge,
  Histogram,
  histogramFamily,
  type MetricFamily,
  type MetricSample,
  type MetricType,
  metricTypes,
} from './metrics/family.ts'
export { type LimiterMetrics, limiterMetrics } from './metrics/limiter-metrics.ts'
