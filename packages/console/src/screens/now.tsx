/** Is it us? Requests by outcome, decision time, stores, nodes, and what changed last. */

import { history, slow, tick } from '../feed.ts'
import { Foreign, Panel, Stat } from '../parts/basics.tsx'
import { Chart } from '../parts/chart.tsx'
import { link } from '../router.ts'
import { ago, brief, count, duration, rate, share } from '../text.ts'
import { RefusedTable } from './limited.tsx'
import { Nodes } from './nodes.tsx'

export function NowScreen() {
  return (
    <>
      <Numbers />
      <div class="columns">
        <Requests />
        <DecisionTime />
      </div>
      <div class="columns">
        <Refused />
        <Changes />
      </div>
      <Nodes />
    </>
  )
}

function Numbers() {
  const { traffic, state, store } = tick.value ?? {}
  if (traffic === undefined || state === undefined || store === undefined) return null
  const { allowed, denied, blocked, unavailable, shed, degraded, p99Ms, p50Ms } = traffic
  const delay = duration(state.loopDelayMs)
  const all = allowed + denied + blocked + unavailable + shed
  const open = store.shards.filter(({ breaker }) => breaker !== 'closed' && breaker !== null)
  return (
    <dl class="stats">
      <Stat label="Requests" value={rate(all)} hint={`${rate(allowed)} admitted`} />
      <Stat
        label="Refused by limits"
        value={rate(denied)}
        hint={`${share(denied, all)} of requests`}
      />
      <Stat
        label="Decision time p99"
        value={duration(p99Ms)}
        hint={`p50 ${duration(p50Ms)}`}
        {...((p99Ms ?? 0) > 20 && { tone: 'warn' as const })}
      />
      <Stat
        label="Without the store"
        value={rate(degraded)}
        hint={degraded > 0 ? 'degraded decisions' : 'none degraded'}
        tone={degraded > 0 ? 'bad' : 'good'}
      />
      <Stat
        label="Shed by overload"
        value={rate(shed)}
        hint={`${count(state.requestsInFlight)} in flight, loop late by ${delay}`}
        tone={shed > 0 ? 'bad' : 'good'}
      />
      <Stat
        label="Store"
        value={!store.isConnected ? 'away' : open.length > 0 ? 'breaker open' : 'healthy'}
        hint={store.kind}
        tone={!store.isConnected || open.length > 0 ? 'bad' : 'good'}
      />
    </dl>
  )
}

function marks() {
  return (slow.value?.changes ?? []).map(({ at, action }) => {
    return { atMs: Date.parse(at), text: action }
  })
}

function Requests() {
  const columns = history.value
  if (columns === undefined) return null
  const optional = (name: string, color: string, values: readonly number[], dash: number[]) =>
    values.some((value) => value > 0) ? [{ name, color, values, dash }] : []
  return (
    <Panel title="Requests by outcome">
      <Chart
        label="Requests by outcome over the last 15 minutes"
        unit="requests per second"
        format={brief}
        timesMs={columns.atMs}
        marks={marks()}
        lines={[
          { name: 'Admitted', color: 'blue', values: columns.allowed, fill: true },
          { name: 'Refused (429)', color: 'orange', values: columns.denied, dash: [8, 3] },
          ...optional('Blocked', 'purple', columns.blocked, [2, 3]),
          ...optional('Unavailable (503)', 'red', columns.unavailable, [10, 3, 2, 3]),
          ...optional('Shed', 'grey', columns.shed, [4, 4]),
        ]}
      />
    </Panel>
  )
}

function DecisionTime() {
  const columns = history.value
  if (columns === undefined) return null
  return (
    <Panel title="Time of a decision">
      <Chart
        label="Time of a decision over the last 15 minutes"
        unit="milliseconds, from buckets"
        format={duration}
        timesMs={columns.atMs}
        marks={marks()}
        lines={[
          { name: 'p50', color: 'blue', values: columns.p50Ms },
          { name: 'p99', color: 'orange', values: columns.p99Ms, dash: [8, 3] },
        ]}
      />
    </Panel>
  )
}

function Refused() {
  const refused = tick.value?.top.refused ?? []
  return (
    <Panel title="Refused most" side={<a href={link('limited')}>All of them</a>}>
      <RefusedTable rows={refused.slice(0, 6)} isShort />
    </Panel>
  )
}

function Changes() {
  const changes = slow.value?.changes ?? []
  return (
    <Panel title="What changed last" side={<a href={link('audit')}>Audit</a>}>
      {changes.length === 0 ? (
        <p class="empty">No change since the audit began.</p>
      ) : (
        <ol class="changes">
          {changes.slice(0, 6).map(({ id, at, by, action, target, why }) => (
            <li key={id}>
              <b>{action}</b> <span>{target}</span>
              <small>
                <Foreign text={by} />, {ago(at)}
                {why !== null && (
                  <>
                    : <Foreign text={why} />
                  </>
                )}
              </small>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}
