/** The versions of the policy: author, reason, the difference of any two, and the way back. */

import { useState } from 'preact/hooks'
import { call, mayDo } from '../api.ts'
import { slow, tick } from '../feed.ts'
import { Action, lastDone } from '../parts/action.tsx'
import { Badge, Empty, Field, Foreign, Panel, Problem, Table, Time } from '../parts/basics.tsx'
import { Diff } from '../parts/diff.tsx'
import { useLoaded } from '../parts/use-loaded.ts'
import { CanaryPanel } from './canary.tsx'
import { rollBack, type Version } from './change.tsx'
import { Nodes } from './nodes.tsx'

export function VersionsScreen() {
  if (tick.value?.state.scope !== 'fleet') {
    return (
      <Empty>
        This node follows its file, which has no versions. With control.etcd, every publication is a
        version with an author and a reason.
      </Empty>
    )
  }
  return <History />
}

function History() {
  const { published, canary } = slow.value ?? {}
  const load = () => call<{ versions: readonly Version[] }>('GET', '/v1/policy/versions')
  const { value, error } = useLoaded(load, [published, canary?.version, lastDone.value])
  const [pair, setPair] = useState<{ from: number; to: number }>()
  const versions = value?.versions ?? []
  const live = published ?? 0
  const to = pair?.to ?? live
  const from = pair?.from ?? versions.find(({ version }) => version === to)?.parent ?? 0
  return (
    <>
      <Problem error={error} />
      <CanaryPanel />
      <Versions {...{ versions, live, setPair }} />
      {versions.length > 0 && (
        <Panel
          title="Difference"
          side={
            <span class="filters">
              {(['from', 'to'] as const).map((side) => (
                <Field key={side} label={side === 'from' ? 'From' : 'To'}>
                  <select
                    value={side === 'from' ? from : to}
                    onChange={({ currentTarget }) =>
                      setPair({ from, to, [side]: Number(currentTarget.value) })
                    }
                  >
                    {versions.map(({ version }) => (
                      <option key={version} value={version}>
                        {version}
                      </option>
                    ))}
                  </select>
                </Field>
              ))}
            </span>
          }
        >
          {from > 0 ? <Difference from={from} to={to} /> : <Empty>It is the first version.</Empty>}
        </Panel>
      )}
      <Nodes />
    </>
  )
}

interface VersionsProps {
  readonly versions: readonly Version[]
  readonly live: number
  setPair(pair: { from: number; to: number }): void
}

function Versions({ versions, live, setPair }: VersionsProps) {
  return (
    <Panel title="History">
      <Table
        label="Versions"
        rows={versions}
        keyOf={({ version }) => String(version)}
        empty="No version is published yet: the local file of each node is the policy."
        columns={[
          {
            name: 'Version',
            isNumber: true,
            cell: ({ version }) => version,
          },
          {
            name: 'Reason',
            cell: ({ why, version, rollbackOf }) => (
              <>
                {version === live && <Badge tone="good">live</Badge>}{' '}
                {version === slow.value?.canary?.version && <Badge tone="warn">canary</Badge>}{' '}
                {rollbackOf !== undefined && <Badge tone="plain">back to {rollbackOf}</Badge>}{' '}
                <Foreign text={why} />
              </>
            ),
          },
          { name: 'By', isWide: true, cell: ({ by }) => <Foreign text={by} /> },
          { name: 'At', isWide: true, cell: ({ at }) => <Time at={at} /> },
          {
            name: 'Actions',
            cell: ({ version, parent }) => (
              <span class="buttons">
                <button
                  type="button"
                  class="quiet"
                  onClick={() => setPair({ from: parent ?? version - 1, to: version })}
                >
                  Changes
                </button>
                {version < live && mayDo('operate') && <RollBack to={version} live={live} />}
              </span>
            ),
          },
        ]}
      />
      {!mayDo('operate') && <p class="note needs">To roll back, the role operate is needed.</p>}
    </Panel>
  )
}

function Difference({ from, to }: { from: number; to: number }) {
  const load = () => call<{ diff: string }>('GET', `/v1/policy/diff?from=${from}&to=${to}`)
  const { value, error } = useLoaded(load, [from, to])
  if (value === undefined) return <Problem error={error} />
  return <Diff text={value.diff} />
}

function RollBack({ to, live }: { to: number; live: number }) {
  const nodes = slow.value?.nodes.length ?? 0
  return (
    <Action
      name="Roll back"
      title={`Roll back to version ${to}`}
      submit="Roll back"
      effect={`The text of version ${to} is published again, for ${nodes} nodes, within a second.`}
      run={async (why) => {
        const { version } = await rollBack(to, live, why)
        return {
          text: `Version ${version} has the text of version ${to}.`,
          undo: () => rollBack(live, version, `undo: ${why}`),
        }
      }}
    />
  )
}
