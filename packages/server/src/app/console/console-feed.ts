/**
 * Everything that the console shows about this process. Once a second it reads the counters of the
 * metrics; everything else is read while a page is open. Decisions add to a few bounded lists.
 */

import type { MetricFamily } from 'tidegate/metrics'
import type {
  ClientView,
  NodeState,
  NodeView,
  RankedKey,
  SecondOfTraffic,
  Snapshot,
  StoreView,
  TargetView,
  Tick,
  TopView,
  TrafficColumns,
  WhatIf,
} from '../../admin/console/console-types.ts'
import type { ClientAsked, ConsoleListener, ConsoleView } from '../../admin/console/console-view.ts'
import type { KeyValueStore } from '../../control/key-value.ts'
import { TrafficReporter } from '../../control/nodes/node-traffic.ts'
import type { ChargeListener } from '../../limits/charging/charge-plan.ts'
import { readableKey } from '../../limits/key-text.ts'
import type { LimitSettings } from '../../limits/limit-settings.ts'
import type { ServiceEvent } from '../../observability/events.ts'
import type { ServiceMetrics } from '../../observability/metrics/service-metrics.ts'
import type { TopKey, TopLists } from '../../observability/top/top-lists.ts'
import { Arrivals } from '../../observability/traffic/key-arrivals.ts'
import { RecentRefusals } from '../../observability/traffic/recent-refusals.ts'
import { TrafficHistory, type TrafficRow } from '../../observability/traffic/traffic-history.ts'
import type { PolicyRuntime } from '../policy-runtime.ts'
import { clientView } from './client-view.ts'
import { HotKeys } from './hot-keys.ts'
import { idempotencyView } from './idempotency-view.ts'
import { limitViews } from './limit-views.ts'
import { regionsView } from './region-views.ts'
import { SlowParts } from './slow-parts.ts'
import { gaugeOf, type Reading, readingOf, routeViews, shardViews } from './store-views.ts'
import { TrafficAverages } from './traffic-averages.ts'
import { whatIf } from './what-if.ts'

export interface ConsoleFeedParts {
  readonly metrics: ServiceMetrics
  readonly top: TopLists
  readonly runtime: PolicyRuntime
  readonly node: string
  targets(): readonly TargetView[]
  state(): NodeState
  /** Reads a policy as if it went live here. */
  load(text: string): Promise<LoadedLimits>
}

export type LoadedLimits =
  | { readonly ok: true; readonly limits: readonly LimitSettings[] }
  | { readonly ok: false; readonly problems: readonly string[] }

const SECOND_MS = 1_000

/** Keys of each list on a page. */
const TOP_COUNT = 50

/** Events after which nodes, changes or the switch may differ. */
const changing = new Set<ServiceEvent['type']>([
  ...(['audit', 'config-applied', 'config-refused', 'live-entries', 'control-contact'] as const),
])

export class ConsoleFeed implements ConsoleView {
  readonly #parts: ConsoleFeedParts
  readonly #history: TrafficHistory
  readonly #refusals = new RecentRefusals()
  readonly #arrivals = new Arrivals()
  readonly #hot = new HotKeys()
  readonly #averages = new TrafficAverages()
  readonly #slow: SlowParts
  readonly #listeners = new Set<ConsoleListener>()
  readonly #timer: NodeJS.Timeout
  #control: KeyValueStore | undefined
  /** Undefined on a node without a fleet. */
  #reporter: TrafficReporter | undefined
  #before: Reading
  #now: Reading

  constructor(parts: ConsoleFeedParts) {
    const { metrics, runtime } = parts
    this.#parts = parts
    this.#history = new TrafficHistory(() => ({
      decisions: metrics.decisions.decisions.read(),
      durations: metrics.decisions.durations.read(),
      limits: metrics.decisions.limits.read(),
      used: metrics.decisions.used.read(),
      shed: sumOf(runtime.overload.status().shed),
    }))
    this.#slow = new SlowParts({
      control: () => this.#control,
      own: () => ownNode(parts.node, parts.state()),
      onChange: () => this.#each((listener) => listener.onSlow()),
    })
    this.#before = readingOf([], Date.now())
    this.#now = this.#before
    this.#timer = setInterval(() => this.#sample(), SECOND_MS).unref()
  }

  /** Counts the decisions of limits that charge. */
  readonly onDecision: ChargeListener = ({ name, key, cost, limit, isShadow }, decision) => {
    this.#parts.top.add(name, key, decision)
    this.#arrivals.add(name, key, cost, limit, decision)
    if (!decision.allowed) this.#refusals.add(name, key, decision, isShadow)
  }

  observe(event: ServiceEvent): void {
    if (event.type === 'store' && event.event.type === 'hot') this.#hot.add(event.event)
    if (this.#listeners.size > 0 && changing.has(event.type)) this.#slow.refresh()
  }

  /** `id` is the name under which the node reports to its fleet, if it does. */
  useControl(control: KeyValueStore, id: string | undefined): void {
    this.#control = control
    this.#slow.ownId = id
    if (id === undefined) return
    this.#reporter = new TrafficReporter({
      store: control,
      id,
      take: () => this.#averages.take(),
    })
  }

  close(): void {
    clearInterval(this.#timer)
    this.#slow.stop()
    this.#reporter?.close()
  }

  subscribe(listener: ConsoleListener): () => void {
    if (this.#listeners.size === 0) this.#setOpen(true)
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size === 0) this.#setOpen(false)
    }
  }

  async snapshot(isRaw: boolean): Promise<Snapshot> {
    if (Date.now() - this.#now.atMs > 2 * SECOND_MS) this.#readPage()
    const slow = await this.#slow.latest()
    const usedBounds = this.#parts.metrics.decisions.used.read().bounds ?? []
    return { ...this.tick(isRaw), ...slow, history: this.#columns(), usedBounds }
  }

  tick(isRaw: boolean): Tick {
    const { targets, state, runtime } = this.#parts
    const last = this.#history.last
    return {
      atMs: Date.now(),
      traffic: shownRow(last),
      state: state(),
      limits: this.#history.limits(),
      top: this.#top(isRaw),
      store: this.#store(isRaw),
      routes: routeViews(this.#before, this.#now),
      targets: targets(),
      regions: regionsView(runtime.regions?.state(), runtime.document, this.#before, this.#now),
      idempotency: idempotencyView(this.#before, this.#now),
    }
  }

  slow() {
    return this.#slow.view
  }

  limits() {
    return limitViews(this.#parts.runtime.enforcer().rules().limits)
  }

  limitHistory(name: string) {
    return this.#history.limit(name)
  }

  client(asked: ClientAsked): Promise<ClientView> {
    const { runtime, top } = this.#parts
    const { store } = runtime.store
    const enforcer = runtime.enforcer()
    const digest = (key: string) => top.digestOf(key)
    return clientView(asked, { enforcer, store, refusals: this.#refusals, digest })
  }

  async whatIf(text: string, isRaw: boolean): Promise<WhatIf> {
    const loaded = await this.#parts.load(text)
    const { document } = this.#parts.runtime
    const parts = {
      before: document.limits,
      arrivals: (name: string) => this.#arrivals.read(name),
      shownKey: (limit: string, key: string) =>
        isRaw ? this.#readable(limit, key).parts.join(', ') : this.#parts.top.digestOf(key),
    }
    if (loaded.ok) return whatIf({ ...parts, after: loaded.limits })
    return { ...(await whatIf({ ...parts, after: document.limits })), problems: loaded.problems }
  }

  #setOpen(isOpen: boolean): void {
    if (isOpen) this.#slow.start()
    else this.#slow.stop()
    this.#reporter?.setOpen(isOpen)
  }

  #sample(): void {
    this.#history.sample(Date.now())
    this.#averages.add(this.#history.last)
    this.#arrivals.tick()
    if (this.#listeners.size === 0) return
    this.#readPage()
    this.#each((listener) => listener.onTick())
  }

  #readPage(): void {
    this.#before = this.#now
    const families: readonly MetricFamily[] = this.#parts.metrics.read()
    this.#now = readingOf(families, Date.now())
  }

  #each(call: (listener: ConsoleListener) => void): void {
    for (const listener of this.#listeners) call(listener)
  }

  #columns(): TrafficColumns {
    const column = (field: keyof TrafficRow) => this.#history.column(field)
    return {
      atMs: column('atMs'),
      allowed: column('allowed'),
      denied: column('denied'),
      blocked: column('blocked'),
      unavailable: column('unavailable'),
      shed: column('shed'),
      degraded: column('degraded'),
      p50Ms: column('p50Ms').map(finite),
      p99Ms: column('p99Ms').map(finite),
    }
  }

  #top(isRaw: boolean): TopView {
    const { top } = this.#parts
    const refused = top.read('refused', undefined, TOP_COUNT, true)
    const asked = top.read('asked', undefined, TOP_COUNT, true)
    const rank = (key: TopKey) => this.#ranked(key, isRaw)
    return {
      sinceMs: refused.sinceMs,
      refused: refused.keys.map(rank),
      asked: asked.keys.map(rank),
    }
  }

  #ranked({ limit, key, count, error }: TopKey, isRaw: boolean): RankedKey {
    const found = this.#refusals.find(limit, key)
    const { kind, parts } = this.#readable(limit, key)
    return {
      ...{ limit, kind, count, error },
      key: isRaw ? parts.join(', ') : this.#parts.top.digestOf(key),
      parts: isRaw ? parts : null,
      deniedPerSecond: found?.perSecond ?? null,
      sinceMs: found?.sinceMs ?? null,
      lastMs: found?.lastMs ?? null,
      retryAfterMs: finite(found?.last.at(-1)?.retryAfterMs ?? Number.NaN),
      isShadow: found?.isShadow ?? false,
    }
  }

  /** Limits of the rate limit service have names of their own, with the text as their key. */
  #readable(name: string, key: string) {
    const { byName, rootOf } = this.#parts.runtime.enforcer().rules().limits
    const limit = byName.get(name)
    if (limit === undefined) return { kind: 'key', parts: [key] }
    return readableKey(limit, rootOf.get(limit), key)
  }

  #store(isRaw: boolean): StoreView {
    const { store } = this.#parts.runtime
    const now = this.#now
    return {
      kind: store.description,
      isConnected: store.isConnected(),
      shards: shardViews(this.#before, now),
      roundTripMs: gaugeOf(now, 'tidegate_store_round_trip_seconds', 1_000),
      deadlineMs: gaugeOf(now, 'tidegate_store_deadline_seconds', 1_000),
      waitingCharges: gaugeOf(now, 'tidegate_store_waiting_charges'),
      leases: gaugeOf(now, 'tidegate_leases'),
      cachedDenials: gaugeOf(now, 'tidegate_cached_denials'),
      hottestKeyCalls: gaugeOf(now, 'tidegate_hottest_key_calls'),
      processes: gaugeOf(now, 'tidegate_nodes'),
      memoryBytes: gaugeOf(now, 'process_resident_memory_bytes'),
      hot: this.#hot.read().map(({ limit, key, perSecond, atMs }) => {
        const shown = isRaw
          ? this.#readable(limit, key).parts.join(', ')
          : this.#parts.top.digestOf(key)
        return { limit, key: shown, perSecond, atMs }
      }),
    }
  }
}

function shownRow({ p50Ms, p99Ms, ...rest }: TrafficRow): SecondOfTraffic {
  return { ...rest, p50Ms: finite(p50Ms), p99Ms: finite(p99Ms) }
}

/** JSON has neither NaN nor Infinity. */
function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null
}

function sumOf(values: Readonly<Record<string, number>>): number {
  return Object.values(values).reduce((sum, one) => sum + one, 0)
}

function ownNode(node: string, state: NodeState): NodeView {
  const { program, startedAt, policyLoadedAt, refusedProblems, liveVersion } = state
  return {
    node,
    region: null,
    version: liveVersion ?? 0,
    state: refusedProblems.length > 0 ? 'refused' : 'applied',
    problems: refusedProblems,
    program,
    startedAt,
    appliedAt: policyLoadedAt,
    isOwn: true,
    isCanary: false,
    traffic: null,
  }
}
