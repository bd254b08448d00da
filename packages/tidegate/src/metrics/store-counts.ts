/** Commands, outages and degraded decisions of a store, by shard. */

import type { ErrorCode } from '../errors.ts'
import type { BreakerState, LimiterEvent } from '../observer.ts'
import type { Store } from '../stores/store.ts'
import { secondsBounds } from './decision-counts.ts'
import {
  type Counter,
  counterFamily,
  gauge,
  type Histogram,
  histogramFamily,
  type MetricFamily,
} from './family.ts'

/** Charges in a command, up to the largest batch. */
const batchBounds = [1, 2, 4, 8, 16, 32, 64, 128] as const

/** Shards with series of their own; those of a larger cluster are counted as `other`. */
const SHARDS_MAX = 12

/** Limits of hot keys with series of their own. */
const LIMITS_MAX = 20

/** The name of the only shard of a store. */
const ONLY_SHARD = 'main'

const breakerStates: readonly BreakerState[] = ['closed', 'open', 'half-open']

const resultOf: Partial<Record<ErrorCode, string>> = {
  'store-timeout': 'timeout',
  'store-unreachable': 'unreachable',
  'store-failed': 'failed',
  'store-misconfigured': 'misconfigured',
}

interface ShardCells {
  readonly answered: Counter
  readonly times: Histogram
  readonly charges: Histogram
}

const shard = { label: 'shard', namesMax: SHARDS_MAX }

export class StoreCounts {
  readonly #commands = counterFamily({
    name: 'tidegate_store_commands_total',
    help: 'Commands to the servers of the store, by result.',
    labels: ['shard', 'result'],
    open: shard,
  })
  readonly #times = histogramFamily(
    {
      name: 'tidegate_store_command_duration_seconds',
      help: 'Time from sending a command until its reply, or until it was given up.',
      labels: ['shard'],
      open: shard,
    },
    secondsBounds,
  )
  readonly #charges = histogramFamily(
    {
      name: 'tidegate_store_batch_charges',
      help: 'Charges that one command carries.',
      labels: ['shard'],
      open: shard,
    },
    batchBounds,
  )
  readonly #degraded = counterFamily({
    name: 'tidegate_degraded_decisions_total',
    help: 'Decisions that were made without the store, by reason and by the declared mode.',
    labels: ['reason', 'mode'],
  })
  readonly #transitions = counterFamily({
    name: 'tidegate_breaker_transitions_total',
    help: 'Changes of the circuit breakers.',
    labels: ['shard', 'to'],
    open: shard,
  })
  readonly #outages = counterFamily({
    name: 'tidegate_store_outage_seconds_total',
    help: 'Time of outages that are over.',
    labels: ['shard'],
    open: shard,
  })
  readonly #misconfigured = counterFamily({
    name: 'tidegate_store_misconfigured_total',
    help: 'Calls that the store refuses until its set-up changes.',
  })
  readonly #hot = counterFamily({
    name: 'tidegate_hot_key_reports_total',
    help: 'Reports of keys with very many calls per second, at most one per key and second.',
    labels: ['limit'],
    open: { label: 'limit', namesMax: LIMITS_MAX },
  })
  readonly #shards = new Map<string, ShardCells>()
  readonly #breakers = new Map<string, BreakerState>()
  #nodes = 0

  readonly observer = (event: LimiterEvent): void => {
    switch (event.type) {
      case 'degraded':
        this.#degraded.of(event.reason, event.mode).value += 1
        return
      case 'breaker': {
        const name = shardName(event.shard)
        this.#transitions.of(name, event.to).value += 1
        if (this.#breakers.has(name) || this.#breakers.size < SHARDS_MAX) {
          this.#breakers.set(name, event.to)
        }
        return
      }
      case 'recovered':
        this.#outages.of(shardName(event.shard)).value += event.outageMs / 1_000
        return
      case 'misconfigured':
        this.#misconfigured.of().value += 1
        return
      case 'nodes':
        this.#nodes = event.count
        return
      case 'hot':
        this.#hot.of(event.limit).value += 1
        return
      default:
        return
    }
  }

  command(name: string, charges: number, tookMs: number, error: ErrorCode | undefined): void {
    const cells = this.#shards.get(name) ?? this.#cellsOf(name)
    if (error === undefined) cells.answered.value += 1
    else this.#commands.of(shardName(name), resultOf[error] ?? 'failed').value += 1
    cells.times.observe(tookMs / 1_000)
    if (charges > 0) cells.charges.observe(charges)
  }

  /** `stores` are read for the gauges. */
  read(stores: readonly Store[]): readonly MetricFamily[] {
    const remote = stores.filter(({ isRemote }) => isRemote)
    // An alert needs the series before the first such call, because an increase is a difference.
    if (remote.length > 0) this.#misconfigured.of()
    const families = [this.#commands, this.#times, this.#charges, this.#degraded]
    const rare = [this.#transitions, this.#outages, this.#misconfigured, this.#hot]
    return [
      ...[...families, ...rare].map((family) => family.read()),
      this.#breakerStates(remote.length > 0),
      gauge('tidegate_nodes', 'Processes that share the store.', this.#nodes || undefined),
      ...gaugesOf(remote),
    ]
  }

  #cellsOf(name: string): ShardCells {
    const shown = shardName(name)
    const cells = {
      answered: this.#commands.of(shown, 'ok'),
      times: this.#times.of(shown),
      charges: this.#charges.of(shown),
    }
    if (this.#shards.size < SHARDS_MAX) this.#shards.set(name, cells)
    return cells
  }

  /** Every shard that is known has one state; a breaker that never changed is closed. */
  #breakerStates(isRemote: boolean): MetricFamily {
    const known = [...this.#shards.keys()].map(shardName)
    const shards = new Set([...known, ...this.#breakers.keys()])
    if (shards.size === 0 && isRemote) shards.add(ONLY_SHARD)
    const samples = [...shards].flatMap((name) => {
      const current = this.#breakers.get(name) ?? 'closed'
      return breakerStates.map((state) => ({
        labels: { shard: name, state },
        value: state === current ? 1 : 0,
      }))
    })
    return gauge('tidegate_breaker_state', 'Circuit breakers in each state.', samples)
  }
}

function shardName(name: string): string {
  return name === '' ? ONLY_SHARD : name
}

/** Over all stores of a meter; without a remote one they have no series. */
function gaugesOf(stores: readonly Store[]): readonly MetricFamily[] {
  const times = stores.flatMap(({ capabilities }) => capabilities?.times?.() ?? [])
  const held = stores.flatMap(({ capabilities }) => capabilities?.held?.() ?? [])
  const hottest = stores.flatMap(({ capabilities }) => capabilities?.hotKeys?.() ?? [])
  const of = (name: string, help: string, value: number) =>
    gauge(`tidegate_${name}`, help, stores.length === 0 ? undefined : value)
  const waiting = sum(times.map((one) => one.waiting ?? 0))
  const roundTripMs = most(times.map((one) => one.roundTripMs ?? 0))
  const deadlineMs = most(times.map((one) => one.deadlineMs))
  const leases = sum(held.map((one) => one.leases))
  const denials = sum(held.map((one) => one.denials))
  const calls = most(hottest.map((one) => one.perSecond))
  const tripHelp = 'The shortest round trip to the store of the last seconds.'
  const deadlineHelp = 'How long the store may stay silent before a decision is degraded.'
  return [
    of('store_waiting_charges', 'Charges that wait to be sent.', waiting),
    of('store_round_trip_seconds', tripHelp, roundTripMs / 1_000),
    of('store_deadline_seconds', deadlineHelp, deadlineMs / 1_000),
    of('leases', 'Keys with units leased to this process.', leases),
    of('cached_denials', 'Denials that are repeated without the store.', denials),
    of('hottest_key_calls', 'Calls of the most used key in the last second.', calls),
  ]
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function most(values: readonly number[]): number {
  return values.reduce((max, value) => Math.max(max, value), 0)
}
