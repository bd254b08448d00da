/**
 * Adds up the pages of several processes. Counters and histograms are sums. A gauge is a sum as
 * well, unless it is listed here: the version of the policy is the same in each process.
 */

import type { MetricFamily, MetricSample } from 'tidegate/metrics'

/** Gauges that are not sums: the value of the process that is worst off. */
const choices: Readonly<Record<string, (one: number, other: number) => number>> = {
  tidegate_build_info: Math.max,
  tidegate_policy_info: Math.max,
  tidegate_policy_limits: Math.max,
  tidegate_policy_loaded_timestamp_seconds: Math.min,
  tidegate_overrides: Math.max,
  tidegate_blocks: Math.max,
  tidegate_entry_problems: Math.max,
  tidegate_switch_state: Math.max,
  tidegate_source_connected: Math.min,
  tidegate_source_last_contact_timestamp_seconds: Math.min,
  tidegate_nodes: Math.max,
  tidegate_store_round_trip_seconds: Math.max,
  tidegate_store_deadline_seconds: Math.max,
  tidegate_hottest_key_calls: Math.max,
  tidegate_overload_delay_seconds: Math.max,
  tidegate_overload_shed_ratio: Math.max,
  tidegate_gateway_target_up: Math.min,
  nodejs_eventloop_lag_seconds: Math.max,
  process_start_time_seconds: Math.min,
}

const add = (one: number, other: number) => one + other

export function mergeFamilies(pages: readonly (readonly MetricFamily[])[]): MetricFamily[] {
  const merged = new Map<string, { family: MetricFamily; samples: Map<string, MetricSample> }>()
  for (const family of pages.flat()) {
    const known = merged.get(family.name) ?? { family, samples: new Map() }
    merged.set(family.name, known)
    for (const sample of family.samples) {
      const key = JSON.stringify(sample.labels)
      const before = known.samples.get(key)
      known.samples.set(key, before === undefined ? sample : sumOf(family, before, sample))
    }
  }
  return [...merged.values()].map(({ family, samples }) => ({
    ...family,
    samples: [...samples.values()],
  }))
}

/** Keeps only what a process that has ended still counts for: its counters and histograms. */
export function totalsOf(page: readonly MetricFamily[]): readonly MetricFamily[] {
  return page.filter(({ type }) => type !== 'gauge')
}

function sumOf({ name, type }: MetricFamily, one: MetricSample, other: MetricSample): MetricSample {
  const combine = (type === 'gauge' ? choices[name] : undefined) ?? add
  const value = combine(one.value, other.value)
  if (one.buckets === undefined) return { labels: one.labels, value }
  const buckets = one.buckets.map((count, at) => count + (other.buckets?.[at] ?? 0))
  const sum = (one.sum ?? 0) + (other.sum ?? 0)
  const exemplars = latestOf(one.exemplars, other.exemplars)
  return { labels: one.labels, value, sum, buckets, ...(exemplars !== undefined && { exemplars }) }
}

type Exemplars = MetricSample['exemplars']

function latestOf(one: Exemplars, other: Exemplars): Exemplars {
  if (one === undefined || other === undefined) return one ?? other
  return one.map((first, at) => {
    const second = other[at] ?? null
    if (first === null || second === null) return first ?? second
    return second.atSeconds > first.atSeconds ? second : first
  })
}
