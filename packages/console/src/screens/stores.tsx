/** The store of the counters: its servers, their times and breakers, leases and hot keys. */

import type { StoreView } from '../../../server/src/admin/console/console-types.ts'
import { tick } from '../feed.ts'
import { Badge, Empty, Foreign, Panel, Stat, Table } from '../parts/basics.tsx'
import { ago, brief, bytes, count, duration, rate } from '../text.ts'

export function StoresScreen() {
  const store = tick.value?.store
  if (store === undefined) return null
  return (
    <>
      <Numbers store={store} />
      <Servers store={store} />
      <HotKeys store={store} />
    </>
  )
}

interface StoreProps {
  readonly store: StoreView
}

function Numbers({ store }: StoreProps) {
  return (
    <dl class="stats">
      <Stat
        label="Store"
        value={store.isConnected ? 'connected' : 'away'}
        hint={store.kind}
        tone={store.isConnected ? 'good' : 'bad'}
      />
      <Stat
        label="Shortest round trip"
        value={duration(store.roundTripMs)}
        hint={`deadline ${duration(store.deadlineMs)}`}
      />
      <Stat label="Charges that wait" value={count(store.waitingCharges)} />
      <Stat
        label="Leased keys"
        value={count(store.leases)}
        hint={`${count(store.cachedDenials)} denials are remembered`}
      />
      <Stat label="Processes" value={count(store.processes)} hint="that share the store" />
      <Stat label="Memory of this process" value={bytes(store.memoryBytes)} />
    </dl>
  )
}

function Servers({ store }: StoreProps) {
  const isMemory = store.shards.length === 0 && store.kind.includes('memory')
  return (
    <Panel title="Servers">
      {isMemory ? (
        <Empty>Counters are in the memory of this process: there is no server.</Empty>
      ) : (
        <Table
          label="Servers of the store"
          rows={store.shards}
          keyOf={({ shard }) => shard}
          empty="No command was sent yet."
          columns={[
            { name: 'Shard', cell: ({ shard }) => (shard === '' ? 'the only one' : shard) },
            {
              name: 'Breaker',
              cell: ({ breaker }) => (
                <Badge
                  tone={breaker === 'open' ? 'bad' : breaker === 'half-open' ? 'warn' : 'good'}
                >
                  {breaker ?? 'closed'}
                </Badge>
              ),
            },
            {
              name: 'Commands',
              isNumber: true,
              cell: ({ commandsPerSecond }) => rate(commandsPerSecond),
            },
            {
              name: 'Errors',
              isNumber: true,
              cell: ({ errorsPerSecond }) => rate(errorsPerSecond),
            },
            { name: 'p50', isNumber: true, cell: ({ p50Ms }) => duration(p50Ms) },
            { name: 'p99', isNumber: true, cell: ({ p99Ms }) => duration(p99Ms) },
            {
              name: 'Charges per command',
              isNumber: true,
              isWide: true,
              cell: ({ chargesPerCommand }) => brief(chargesPerCommand),
            },
            {
              name: 'Connections',
              isNumber: true,
              isWide: true,
              cell: ({ connections }) => count(connections),
            },
          ]}
        />
      )}
    </Panel>
  )
}

function HotKeys({ store }: StoreProps) {
  return (
    <Panel title="Hot keys" note="Keys with very many calls per second, in the last 15 minutes.">
      <Table
        label="Hot keys"
        rows={store.hot}
        keyOf={({ limit, key }) => `${limit} ${key}`}
        empty="No key is hot."
        columns={[
          { name: 'Key', cell: ({ key }) => <Foreign text={key} /> },
          { name: 'Limit', cell: ({ limit }) => limit },
          { name: 'Calls', isNumber: true, cell: ({ perSecond }) => rate(perSecond) },
          { name: 'Reported', isNumber: true, cell: ({ atMs }) => ago(atMs) },
        ]}
      />
    </Panel>
  )
}
