/** Every limit: its numbers, its traffic, the share in use, and what shadow mode would refuse. */

import { useMemo, useState } from 'preact/hooks'
import type {
  LimitHistory,
  LimitTraffic,
  LimitView,
} from '../../../server/src/admin/console/console-types.ts'
import { call } from '../api.ts'
import { tick, usedBounds } from '../feed.ts'
import { Badge, type Column, Empty, Field, Panel, Problem, Table } from '../parts/basics.tsx'
import { Chart } from '../parts/chart.tsx'
import { useLoaded } from '../parts/use-loaded.ts'
import { link, place } from '../router.ts'
import { brief, count, rate, share } from '../text.ts'
import { RefusedTable } from './limited.tsx'

interface Row extends LimitView {
  readonly traffic: LimitTraffic | undefined
}

export function LimitsScreen() {
  const version = tick.value?.state.policyVersion
  const load = () => call<{ limits: readonly LimitView[] }>('GET', '/v1/limits')
  const { value, error } = useLoaded(load, [version])
  const name = place.value.query.get('name')
  if (value === undefined) return <Problem error={error} />
  const chosen = value.limits.find((limit) => limit.name === name)
  if (name !== null) return <OneLimit name={name} limit={chosen} />
  return <AllLimits limits={value.limits} />
}

function AllLimits({ limits }: { limits: readonly LimitView[] }) {
  const [filter, setFilter] = useState('')
  const traffic = tick.value?.limits ?? []
  const byName = useMemo(() => new Map(traffic.map((one) => [one.name, one])), [traffic])
  const wanted = filter.toLowerCase()
  const rows: Row[] = limits
    .filter(({ name, key, match }) => `${name} ${key} ${match}`.toLowerCase().includes(wanted))
    .map((limit) => ({ ...limit, traffic: byName.get(limit.name) }))
  return (
    <Panel
      title={`Limits (${limits.length})`}
      note="Shares and counts are of the last 15 minutes, on this node."
      side={
        <Field label="Filter">
          <input
            type="search"
            value={filter}
            onInput={({ currentTarget }) => setFilter(currentTarget.value)}
          />
        </Field>
      }
    >
      <Table
        label="Limits"
        rows={rows}
        keyOf={(row) => row.name}
        empty={limits.length === 0 ? 'The policy has no limit.' : 'No limit has this text.'}
        columns={columns}
      />
    </Panel>
  )
}

const columns: readonly Column<Row>[] = [
  {
    name: 'Limit',
    cell: ({ name, mode, rollout }) => (
      <>
        <a href={link('limits', { name })}>{name}</a>{' '}
        {mode !== 'enforce' && <Badge tone="plain">{mode}</Badge>}
        {rollout < 100 && <Badge tone="plain">{rollout} % of keys</Badge>}
      </>
    ),
  },
  { name: 'Numbers', cell: ({ numbers }) => numbers },
  { name: 'Counted by', isWide: true, cell: ({ key }) => key },
  { name: 'For', isWide: true, cell: ({ match }) => match },
  {
    name: 'Asked',
    isNumber: true,
    cell: ({ traffic }) => rate(traffic && traffic.allowedPerSecond + traffic.deniedPerSecond),
  },
  {
    name: 'Refused',
    isNumber: true,
    cell: ({ traffic, mode }) => {
      if (traffic === undefined) return '–'
      const [part, all] =
        mode === 'shadow'
          ? [traffic.shadowDenied, traffic.shadowAsked]
          : [traffic.denied, traffic.asked]
      return `${share(part, all)}${mode === 'shadow' ? ' (would)' : ''}`
    },
  },
  {
    name: 'Share in use',
    cell: ({ traffic }) => <UsedBars used={traffic?.used ?? []} />,
    isWide: true,
  },
]

/** Decisions by the share of the limit in use: from little used on the left to used up. */
function UsedBars({ used, isLarge }: { used: readonly number[]; isLarge?: boolean }) {
  const all = used.reduce((sum, one) => sum + one, 0)
  if (all === 0) return <>–</>
  const bounds = usedBounds.value
  const names = used.map((one, at) => {
    const from = at === 0 ? 0 : (bounds[at - 1] ?? 0)
    return `${from * 100} to ${(bounds[at] ?? 1) * 100} %: ${share(one, all)}`
  })
  const width = 100 / used.length
  return (
    <svg
      class={isLarge ? 'bars large' : 'bars'}
      viewBox="0 0 100 24"
      preserveAspectRatio="none"
      role="img"
      aria-label={`Share of the limit in use. ${names.join(', ')}`}
    >
      <title>{names.join('\n')}</title>
      {used.map((one, at) => {
        const height = Math.max(one > 0 ? 1 : 0, (one / all) * 24)
        return (
          <rect
            key={names[at]}
            class={at === used.length - 1 ? 'full' : ''}
            x={at * width + 0.5}
            y={24 - height}
            width={width - 1}
            height={height}
          />
        )
      })}
    </svg>
  )
}

/** The history moves in steps of 5 s. */
const STEP_MS = 5_000

function OneLimit({ name, limit }: { name: string; limit: LimitView | undefined }) {
  const turn = Math.floor((tick.value?.atMs ?? 0) / STEP_MS)
  const load = () =>
    call<{ history: LimitHistory | null }>(
      'GET',
      `/v1/limits/history?${new URLSearchParams({ name })}`,
    )
  const { value, error } = useLoaded(load, [name, turn])
  const traffic = tick.value?.limits.find((one) => one.name === name)
  const refused = (tick.value?.top.refused ?? []).filter((row) => row.limit === name)
  return (
    <>
      <p>
        <a href={link('limits')}>All limits</a>
      </p>
      <Panel title={name}>
        {limit === undefined ? <Empty>The policy has no such limit.</Empty> : <Facts {...limit} />}
        {limit?.mode === 'shadow' && traffic !== undefined && (
          <p class="verdict">
            In shadow it would have refused {share(traffic.shadowDenied, traffic.shadowAsked)} (
            {count(traffic.shadowDenied)} of {count(traffic.shadowAsked)} requests), of{' '}
            {refused.length} clients that are listed below.
          </p>
        )}
        <Problem error={error} />
        {value?.history ? (
          <HistoryChart history={value.history} isShadow={limit?.mode === 'shadow'} />
        ) : (
          <Empty>No decision in the last 15 minutes.</Empty>
        )}
      </Panel>
      {traffic?.used.some((one) => one > 0) && (
        <Panel
          title="Share of the limit in use"
          note="Decisions of the last minutes, from little used (left) to used up (right)."
        >
          <UsedBars used={traffic.used} isLarge />
        </Panel>
      )}
      <Panel title={limit?.mode === 'shadow' ? 'Would be refused most' : 'Refused most'}>
        <RefusedTable rows={refused} />
      </Panel>
    </>
  )
}

function Facts({ numbers, algorithm, key, match, mode, rollout, within, tiers }: LimitView) {
  const facts = [
    ['Numbers', numbers],
    ['Algorithm', algorithm],
    ['Counted by', key],
    ['For', match],
    ['Mode', rollout < 100 ? `${mode}, ${rollout} % of keys` : mode],
    ...(within === null ? [] : [['Within', within]]),
    ...Object.entries(tiers).map(([tier, text]) => [`Tier ${tier}`, text]),
  ]
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

function HistoryChart({ history, isShadow }: { history: LimitHistory; isShadow: boolean }) {
  const { stepMs, endMs, allowed, denied, shadowDenied } = history
  const perSecond = (values: readonly number[]) => values.map((one) => (one * 1_000) / stepMs)
  const timesMs = allowed.map((_, at) => endMs - (allowed.length - 1 - at) * stepMs)
  const refused = isShadow ? shadowDenied : denied
  return (
    <Chart
      label="Decisions of this limit over the last 15 minutes"
      unit="decisions per second"
      format={brief}
      timesMs={timesMs}
      lines={[
        { name: 'Allowed', color: 'blue', values: perSecond(allowed), fill: true },
        {
          name: isShadow ? 'Would be refused' : 'Refused',
          color: 'orange',
          values: perSecond(refused),
          dash: [8, 3],
        },
      ]}
    />
  )
}
