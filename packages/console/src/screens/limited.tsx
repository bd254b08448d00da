/** Which clients are limited right now, by which limit, how often and since when. */

import { useState } from 'preact/hooks'
import type { RankedKey } from '../../../server/src/admin/console/console-types.ts'
import { tick } from '../feed.ts'
import { Badge, type Column, Field, Foreign, Panel, Table } from '../parts/basics.tsx'
import { go } from '../router.ts'
import { ago, count, duration, rate, time } from '../text.ts'
import { askFor } from './client/client-asked.ts'

export function LimitedScreen() {
  const [limit, setLimit] = useState('')
  const [frozen, setFrozen] = useState<typeof tick.value>()
  const shown = frozen ?? tick.value
  const { refused = [], asked = [], sinceMs = 0 } = shown?.top ?? {}
  const names = [...new Set([...refused, ...asked].map((row) => row.limit))].sort()
  const isWanted = (row: RankedKey) => limit === '' || row.limit === limit
  return (
    <>
      <div class="filters">
        <Field label="Limit">
          <select value={limit} onChange={({ currentTarget }) => setLimit(currentTarget.value)}>
            <option value="">All limits</option>
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <button
          type="button"
          aria-pressed={frozen !== undefined}
          onClick={() => setFrozen(frozen === undefined ? tick.value : undefined)}
        >
          {frozen === undefined ? 'Pause' : 'Go on'}
        </button>
        <p class="note">
          Since {time(sinceMs)}, on this node. Counts are never too low, and too high by their error
          at most.
        </p>
      </div>
      <Panel title="Refused most">
        <RefusedTable rows={refused.filter(isWanted)} />
      </Panel>
      <Panel title="Asks most" note="Estimated from one decision in 64.">
        <Table
          label="Keys that ask most"
          rows={asked.filter(isWanted)}
          keyOf={keyOf}
          empty="No request in the last minutes."
          columns={[
            clientColumn,
            { name: 'Limit', cell: (row) => row.limit },
            { name: 'Asked', isNumber: true, cell: (row) => `≈ ${count(row.count)}` },
            { name: 'Error', isNumber: true, isWide: true, cell: errorOf },
          ]}
        />
      </Panel>
    </>
  )
}

export function RefusedTable({ rows, isShort }: { rows: readonly RankedKey[]; isShort?: boolean }) {
  const columns: Column<RankedKey>[] = [
    clientColumn,
    {
      name: 'Limit',
      cell: (row) => (
        <>
          {row.limit} {row.isShadow && <Badge tone="plain">shadow</Badge>}
        </>
      ),
    },
    { name: 'Refused', isNumber: true, cell: (row) => rate(row.deniedPerSecond) },
    { name: 'In all', isNumber: true, cell: (row) => count(row.count) },
    { name: 'Since', isNumber: true, isWide: true, cell: (row) => ago(row.sinceMs) },
  ]
  const more: Column<RankedKey>[] = [
    { name: 'Last', isNumber: true, isWide: true, cell: (row) => ago(row.lastMs) },
    {
      name: 'Told to wait',
      isNumber: true,
      isWide: true,
      cell: (row) => duration(row.retryAfterMs),
    },
    { name: 'Error', isNumber: true, isWide: true, cell: errorOf },
  ]
  return (
    <Table
      label="Keys that are refused most"
      rows={rows}
      keyOf={keyOf}
      empty="No client was refused in the last minutes."
      columns={isShort ? columns : [...columns, ...more]}
    />
  )
}

const clientColumn: Column<RankedKey> = {
  name: 'Client',
  cell: (row) => {
    const [first] = row.parts ?? []
    const kind = askedKind(row.kind)
    const text = <Foreign text={row.key === '' ? 'all clients together' : row.key} />
    const name = <small>{row.kind}</small>
    if (first === undefined || kind === undefined) {
      return (
        <>
          {text} {name}
        </>
      )
    }
    const open = () => {
      askFor({ kind, value: first })
      go('client')
    }
    return (
      <>
        <button type="button" class="link" onClick={open}>
          {text}
        </button>{' '}
        {name}
      </>
    )
  },
}

/** The first part of a key that names a client. */
function askedKind(kind: string) {
  const first = kind.replace(/^\[/, '').split(/[,\]]/)[0] ?? ''
  if (first.startsWith('ip') || first.startsWith('{ ip') || first.startsWith('{"ip')) return 'ip'
  return (['apiKey', 'user', 'organisation', 'certificate'] as const).find((one) => one === first)
}

/** How much too high a count may be. */
function errorOf({ error }: RankedKey): string {
  return error === 0 ? 'none' : `≤ ${count(error)}`
}

function keyOf({ limit, key }: RankedKey): string {
  return `${limit} ${key}`
}
