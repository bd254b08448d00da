/** Stores, routes and targets for the console, from two readings of the metrics of a service. */

import type { MetricFamily, MetricSample } from 'tidegate/metrics'
import type { RouteView, ShardView } from '../../admin/console/console-types.ts'
import {
  type Buckets,
  bucketsBetween,
  noBuckets,
  quantileOf,
} from '../../observability/traffic/quantile.ts'

/** A page of metrics at a time. */
export interface Reading {
  readonly atMs: number
  readonly families: ReadonlyMap<string, MetricFamily>
}

export function readingOf(families: readonly MetricFamily[], atMs: number): Reading {
  return { atMs, families: new Map(families.map((family) => [family.name, family])) }
}

/** The value of a gauge without labels; null if there is none. */
export function gaugeOf({ families }: Reading, name: string, factor = 1): number | null {
  const value = families.get(name)?.samples[0]?.value
  return value === undefined || !Number.isFinite(value) ? null : value * factor
}

export function shardViews(before: Reading, now: Reading): readonly ShardView[] {
  const breakers = samplesOf(now, 'tidegate_breaker_state').filter(({ value }) => value > 0)
  const connections = samplesOf(now, 'tidegate_store_connections')
  const commands = 'tidegate_store_commands_total'
  const named = [...samplesOf(now, commands), ...breakers].map(shardOf)
  const shards = [...new Set(named)].sort()
  return shards.map((shard) => {
    const isShard = (labels: MetricSample['labels']) => labels.shard === shard
    const failed = (labels: MetricSample['labels']) => isShard(labels) && labels.result !== 'ok'
    const times = spentBuckets(before, now, 'tidegate_store_command_duration_seconds', isShard)
    const batch = spentBuckets(before, now, 'tidegate_store_batch_charges', isShard)
    return {
      shard,
      breaker: stateOf(breakers.find(({ labels }) => isShard(labels))),
      commandsPerSecond: rateOf(before, now, commands, isShard),
      errorsPerSecond: rateOf(before, now, commands, failed),
      p50Ms: inMs(times.quantile(0.5)),
      p99Ms: inMs(times.quantile(0.99)),
      chargesPerCommand: batch.mean,
      connections: connections.find(({ labels }) => isShard(labels))?.value ?? null,
    }
  })
}

export function routeViews(before: Reading, now: Reading): readonly RouteView[] {
  const requests = 'tidegate_gateway_requests_total'
  const routes = [...new Set(samplesOf(now, requests).map(({ labels }) => labels.route ?? ''))]
  return routes.sort().map((route) => {
    const rate = (isWanted: (code: string) => boolean) =>
      rateOf(before, now, requests, (labels) => {
        return labels.route === route && isWanted(labels.code ?? '')
      })
    const isRoute = (labels: MetricSample['labels']) => labels.route === route
    const times = spentBuckets(before, now, 'tidegate_gateway_request_duration_seconds', isRoute)
    return {
      route,
      perSecond: rate(() => true),
      limitedPerSecond: rate((code) => code === '429'),
      failedPerSecond: rate((code) => code.startsWith('5')),
      p50Ms: inMs(times.quantile(0.5)),
      p99Ms: inMs(times.quantile(0.99)),
    }
  })
}

export type IsWanted = (labels: MetricSample['labels']) => boolean

export function samplesOf({ families }: Reading, name: string): readonly MetricSample[] {
  return families.get(name)?.samples ?? []
}

function shardOf({ labels }: MetricSample): string {
  return labels.shard ?? ''
}

function stateOf(sample: MetricSample | undefined): ShardView['breaker'] {
  const state = sample?.labels.state?.replace('_', '-')
  return state === 'open' || state === 'half-open' || state === 'closed' ? state : null
}

export function rateOf(before: Reading, now: Reading, name: string, isWanted: IsWanted): number {
  const seconds = (now.atMs - before.atMs) / 1_000
  const spent = sumOf(now, name, isWanted) - sumOf(before, name, isWanted)
  return seconds <= 0 ? 0 : Math.max(0, spent) / seconds
}

export function sumOf(reading: Reading, name: string, isWanted: IsWanted): number {
  return samplesOf(reading, name)
    .filter(({ labels }) => isWanted(labels))
    .reduce((total, { value }) => total + value, 0)
}

function spentBuckets(before: Reading, now: Reading, name: string, isWanted: IsWanted) {
  const find = (reading: Reading) => samplesOf(reading, name).find(({ labels }) => isWanted(labels))
  const spent = bucketsBetween(bucketsOf(find(before)), bucketsOf(find(now)))
  const bounds = now.families.get(name)?.bounds ?? []
  const sum = (find(now)?.sum ?? 0) - (find(before)?.sum ?? 0)
  return {
    quantile: (share: number) => quantileOf(share, bounds, spent.counts, spent.total),
    mean: spent.total > 0 ? sum / spent.total : null,
  }
}

function bucketsOf(sample: MetricSample | undefined): Buckets {
  return sample === undefined ? noBuckets : { counts: sample.buckets ?? [], total: sample.value }
}

function inMs(seconds: number | null): number | null {
  return seconds === null ? null : seconds * 1_000
}
