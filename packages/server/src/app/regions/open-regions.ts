/** The regions of a service: its store with shared limits, their state and their metrics. */

import { gauge, type MetricFamily } from 'tidegate/metrics'
import type { ReadSecret } from '../../config/secrets.ts'
import type { Emit } from '../../observability/events.ts'
import type { PolicyDocument } from '../../policy/schema/policy-schema.ts'
import { Regions, type RegionsState } from '../../regions/regions.ts'
import type { OpenStore } from '../../stores/create-store.ts'

export interface OpenRegions {
  /** The store of the service: that of the region, if the policy has no regions. */
  readonly store: OpenStore
  readonly regions: Regions | undefined
}

export interface RegionParts {
  readonly document: PolicyDocument
  readonly readSecret: ReadSecret
  readonly folder: string
  readonly emit: Emit
}

export function openRegions(opened: OpenStore, parts: RegionParts): OpenRegions {
  const { document, readSecret, folder, emit } = parts
  const { region, regions: section } = document
  if (section === undefined || region === undefined) return { store: opened, regions: undefined }
  const regions = new Regions(
    {
      ...{ document, readSecret, folder, store: opened.store },
      openExchange: () => opened.background(),
      onPeer: (peer, isUp, problem) => emit({ type: 'region-link', region: peer, isUp, problem }),
    },
    region,
    section,
  )
  const store: OpenStore = {
    ...opened,
    store: regions.store,
    async close() {
      await regions.store.giveBack()
      await regions.close()
      await opened.close()
    },
  }
  return { store, regions }
}

/** The document of `/status`. */
export function regionsStatus({ self, peers, held, shared, forgotten }: RegionsState): object {
  return {
    self,
    peers: peers.map(({ region, isUp, problem, roundTripMs, clockOffsetMs }) => ({
      region,
      up: isUp,
      ...(problem === undefined ? undefined : { problem }),
      ...(roundTripMs === undefined ? undefined : { roundTripMs: Math.round(roundTripMs) }),
      ...(clockOffsetMs === undefined ? undefined : { clockOffsetMs: Math.round(clockOffsetMs) }),
    })),
    ...(forgotten.length === 0 ? undefined : { forgotten }),
    leasedKeys: held.keys,
    leasedUnits: held.units,
    ...(shared === undefined ? undefined : { shared }),
  }
}

export function regionFamilies(state: RegionsState | undefined): readonly MetricFamily[] {
  if (state === undefined) return []
  const { peers, held, counts, refused, shared } = state
  const byPeer = (value: (peer: (typeof peers)[number]) => number | undefined) =>
    peers.flatMap((peer) => {
      const one = value(peer)
      return one === undefined ? [] : [{ labels: { to: peer.region }, value: one }]
    })
  const counter = (name: string, help: string, samples: MetricFamily['samples']) =>
    ({ name, help, type: 'counter', samples }) as const
  return [
    gauge(
      'tidegate_region_peer_up',
      'Whether another region answers.',
      byPeer((one) => Number(one.isUp)),
    ),
    gauge(
      'tidegate_region_round_trip_seconds',
      'The round trip to another region.',
      byPeer(({ roundTripMs }) => roundTripMs && roundTripMs / 1_000),
    ),
    gauge(
      'tidegate_region_clock_offset_seconds',
      'How far the clock of another region is ahead.',
      byPeer(({ clockOffsetMs }) => clockOffsetMs && clockOffsetMs / 1_000),
    ),
    gauge('tidegate_region_leased_units', 'Units leased from other regions.', held.units),
    gauge('tidegate_region_leased_keys', 'Keys with leased units.', held.keys),
    counter(
      'tidegate_region_sent_bytes_total',
      'Bytes of messages to another region, without those of TLS and HTTP/2.',
      byPeer(({ sentBytes }) => sentBytes),
    ),
    counter(
      'tidegate_region_received_bytes_total',
      'Bytes of answers of another region.',
      byPeer(({ receivedBytes }) => receivedBytes),
    ),
    counter(
      'tidegate_region_messages_total',
      'Messages to another region.',
      byPeer(({ messages }) => messages),
    ),
    counter(
      'tidegate_region_decisions_total',
      'Decisions about limits that regions share, by how they were made.',
      counts.map(({ limit, mode, by, count }) => ({ labels: { limit, mode, by }, value: count })),
    ),
    counter(
      'tidegate_region_refused_total',
      'Messages of other regions that were refused.',
      Object.entries(refused).map(([reason, value]) => ({ labels: { reason }, value })),
    ),
    ...sharedFamilies(shared, peers),
  ]
}

function sharedFamilies(
  shared: RegionsState['shared'],
  peers: RegionsState['peers'],
): readonly MetricFamily[] {
  if (shared === undefined) return []
  const { isExchanger, keys, silent, failures } = shared
  // Only the exchanger knows them.
  const waited = isExchanger ? peers : []
  return [
    gauge(
      'tidegate_region_exchanger',
      'Whether this process exchanges the counts of its region.',
      Number(isExchanger),
    ),
    gauge('tidegate_region_exchanged_keys', 'Keys whose counts it exchanges.', keys),
    gauge(
      'tidegate_region_counts_peer',
      'Whether another region has counted units within the last 10 s.',
      waited.map(({ region: to }) => ({ labels: { to }, value: Number(!silent.includes(to)) })),
    ),
    {
      name: 'tidegate_region_exchange_failures_total',
      help: 'Reports and exchanges that failed, because Redis did not answer.',
      type: 'counter',
      samples: [{ labels: {}, value: failures }],
    },
  ]
}
