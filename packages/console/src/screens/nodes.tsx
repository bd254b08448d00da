/** The nodes of the fleet: their versions, how far a new one has come, and their traffic. */

import type { NodeView } from '../../../server/src/admin/console/console-types.ts'
import { slow, tick } from '../feed.ts'
import { Age, Badge, type Column, Foreign, Panel, Table } from '../parts/basics.tsx'
import { duration, rate } from '../text.ts'

export function Nodes() {
  const { nodes = [], published = null, canary = null } = slow.value ?? {}
  const isFleet = tick.value?.state.scope === 'fleet'
  const wanted = (node: NodeView) => (node.isCanary ? canary?.version : published) ?? 0
  const arrived = nodes.filter((node) => node.version === wanted(node))
  const note = isFleet
    ? 'Requests are averages of 5 s of each node. The other numbers and lists are of this node.'
    : 'A single node. With etcd, all nodes of the fleet are here.'
  return (
    <Panel
      title={`Nodes (${nodes.length})`}
      note={note}
      side={
        isFleet &&
        published !== null && (
          <Badge tone={arrived.length === nodes.length ? 'good' : 'warn'}>
            {arrived.length} of {nodes.length} have their version
          </Badge>
        )
      }
    >
      {isFleet && nodes.length > 1 && <Sum nodes={nodes} />}
      <Table
        label="Nodes"
        rows={nodes}
        keyOf={({ node, startedAt }) => `${node} ${startedAt}`}
        empty="No node reports."
        columns={isFleet ? [...columns, ...traffic, ...rest] : [...columns, ...rest]}
      />
    </Panel>
  )
}

function Sum({ nodes }: { nodes: readonly NodeView[] }) {
  const known = nodes.flatMap((node) => node.traffic ?? [])
  if (known.length === 0) return <p class="note">Waiting for the numbers of the nodes …</p>
  const sum = (field: 'allowedPerSecond' | 'refusedPerSecond' | 'degradedPerSecond') =>
    rate(known.reduce((all, one) => all + one[field], 0))
  const [allowed, refused] = [sum('allowedPerSecond'), sum('refusedPerSecond')]
  const isPart = known.length < nodes.length
  return (
    <p class="verdict">
      All nodes: {allowed} admitted, {refused} refused, {sum('degradedPerSecond')} without the store
      {isPart && ` (${known.length} of ${nodes.length} have reported)`}
    </p>
  )
}

const columns: readonly Column<NodeView>[] = [
  {
    name: 'Node',
    cell: ({ node, isOwn, isCanary }) => (
      <>
        <Foreign text={node} /> {isOwn && <small>this node</small>}{' '}
        {isCanary && <Badge tone="warn">canary</Badge>}
      </>
    ),
  },
  {
    name: 'State',
    cell: ({ state, problems }) => (
      <>
        <Badge tone={state === 'applied' ? 'good' : state === 'refused' ? 'bad' : 'warn'}>
          {state}
        </Badge>
        {problems.length > 0 && <Foreign text={` ${problems[0]}`} />}
      </>
    ),
  },
  {
    name: 'Policy',
    isNumber: true,
    cell: ({ version }) => (version === 0 ? 'local file' : `v${version}`),
  },
]

const traffic: readonly Column<NodeView>[] = [
  {
    name: 'Admitted',
    isNumber: true,
    isWide: true,
    cell: (node) => rate(node.traffic?.allowedPerSecond),
  },
  { name: 'Refused', isNumber: true, cell: (node) => rate(node.traffic?.refusedPerSecond) },
  {
    name: 'Degraded',
    isNumber: true,
    isWide: true,
    cell: (node) => rate(node.traffic?.degradedPerSecond),
  },
  {
    name: 'Failed',
    isNumber: true,
    isWide: true,
    cell: (node) => rate(node.traffic?.failedPerSecond),
  },
  { name: 'p99', isNumber: true, isWide: true, cell: (node) => duration(node.traffic?.p99Ms) },
]

const rest: readonly Column<NodeView>[] = [
  {
    name: 'Applied',
    isWide: true,
    cell: ({ appliedAt }) => <Age at={appliedAt} />,
  },
  { name: 'Region', cell: ({ region }) => region ?? '–', isWide: true },
  { name: 'Program', cell: ({ program }) => program, isWide: true },
]
