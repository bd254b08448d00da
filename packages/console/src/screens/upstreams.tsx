/** The servers behind the gateway, its routes, and its requests with idempotency keys. */

import type { KeyCount } from '../../../server/src/admin/console/console-types.ts'
import { tick } from '../feed.ts'
import { Badge, Foreign, Panel, Stat, Table } from '../parts/basics.tsx'
import { count, duration, rate } from '../text.ts'

export function UpstreamsScreen() {
  const { targets = [], routes = [] } = tick.value ?? {}
  return (
    <>
      <Panel title="Targets">
        <Table
          label="Targets of upstreams"
          rows={targets}
          keyOf={({ upstream, target }) => `${upstream} ${target}`}
          empty="This process has no gateway, so there are no upstreams."
          columns={[
            { name: 'Upstream', cell: ({ upstream }) => upstream },
            { name: 'Target', cell: ({ target }) => <Foreign text={target} /> },
            {
              name: 'State',
              cell: ({ state }) => (
                <Badge tone={state === 'healthy' ? 'good' : 'bad'}>{state}</Badge>
              ),
            },
            { name: 'In flight', isNumber: true, cell: ({ inFlight }) => count(inFlight) },
            {
              name: 'Waiting',
              isNumber: true,
              isWide: true,
              cell: ({ waiting }) => count(waiting),
            },
          ]}
        />
      </Panel>
      <Panel
        title="Routes"
        note="Of the last second. The route none: requests that were refused before one was found."
      >
        <Table
          label="Routes"
          rows={routes}
          keyOf={({ route }) => route}
          empty="No request yet."
          columns={[
            { name: 'Route', cell: ({ route }) => route },
            { name: 'Requests', isNumber: true, cell: ({ perSecond }) => rate(perSecond) },
            { name: '429', isNumber: true, cell: ({ limitedPerSecond: one }) => rate(one) },
            { name: '5xx', isNumber: true, cell: ({ failedPerSecond: one }) => rate(one) },
            { name: 'p50', isNumber: true, isWide: true, cell: ({ p50Ms }) => duration(p50Ms) },
            { name: 'p99', isNumber: true, cell: ({ p99Ms }) => duration(p99Ms) },
          ]}
        />
      </Panel>
      <Keys />
    </>
  )
}

function Keys() {
  const keys = tick.value?.idempotency ?? null
  return (
    <Panel title="Idempotency keys" note="Of the last second, and since the process started.">
      {keys === null ? (
        <p class="empty">The policy has no idempotency keys.</p>
      ) : (
        <dl class="stats">
          <KeyStat label="Executed" of={keys.executed} />
          <KeyStat label="Replayed" of={keys.replayed} />
          <KeyStat label="Conflicts" of={keys.conflicts} />
          <KeyStat label="Refused" of={keys.refused} />
          <Stat
            label="In flight"
            value={count(keys.executing)}
            hint={`${count(keys.waiting)} wait for a response`}
          />
        </dl>
      )}
    </Panel>
  )
}

function KeyStat({ label, of }: { label: string; of: KeyCount }) {
  return <Stat label={label} value={rate(of.perSecond)} hint={`${count(of.total)} in all`} />
}
