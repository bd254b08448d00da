/** The regions that share limits: whether they answer, and what each limit guarantees. */

import type { PeerView, RegionsView } from '../../../server/src/admin/console/region-types.ts'
import { tick } from '../feed.ts'
import { Badge, Empty, Foreign, Panel, Stat, Table } from '../parts/basics.tsx'
import { bytes, count, duration, rate } from '../text.ts'

/** How decisions about shared limits are made, in words. */
const ways: Readonly<Record<string, string>> = {
  share: 'by the share of this region',
  pool: 'from leased units',
  reserve: 'from the reserve of this region',
  home: 'here, at home',
  link: 'by another region',
  cache: 'by an earlier denial',
  'cut-off': 'as declared, cut off',
}

export function RegionsScreen() {
  const { regions } = tick.value ?? {}
  if (regions === undefined) return null
  if (regions === null) {
    return (
      <Panel title="Regions">
        <Empty>
          The policy has no regions, so each limit counts for the store of this node alone.
        </Empty>
      </Panel>
    )
  }
  return (
    <>
      <Numbers regions={regions} />
      <Peers regions={regions} />
      <SharedLimits regions={regions} />
    </>
  )
}

interface RegionsProps {
  readonly regions: RegionsView
}

function Numbers({ regions: { self, peers, leasedKeys, leasedUnits } }: RegionsProps) {
  const up = peers.filter(({ isUp }) => isUp).length
  return (
    <dl class="stats">
      <Stat label="This region" value={self} />
      <Stat
        label="Others that answer"
        value={`${count(up)} of ${count(peers.length)}`}
        tone={up === peers.length ? 'good' : 'bad'}
      />
      <Stat
        label="Leased units"
        value={count(leasedUnits)}
        hint={`of ${count(leasedKeys)} keys, from other regions`}
      />
    </dl>
  )
}

function Peers({ regions: { peers } }: RegionsProps) {
  return (
    <Panel
      title="Links"
      note="While a region does not answer, its limits decide here as they declare (onCutOff)."
    >
      <Table
        label="Links to other regions"
        rows={peers}
        keyOf={({ region }) => region}
        empty="The policy has no link, so regions have fixed shares only."
        columns={[
          { name: 'Region', cell: ({ region }) => region },
          { name: 'State', cell: (peer) => <PeerState peer={peer} /> },
          {
            name: 'Round trip',
            isNumber: true,
            cell: ({ roundTripMs }) => duration(roundTripMs),
          },
          {
            name: 'Clock ahead by',
            isNumber: true,
            isWide: true,
            cell: ({ clockOffsetMs }) => ahead(clockOffsetMs),
          },
          {
            name: 'Traffic per second',
            isNumber: true,
            isWide: true,
            cell: ({ bytesPerSecond }) => bytes(bytesPerSecond),
          },
        ]}
      />
    </Panel>
  )
}

function PeerState({ peer: { isUp, problem } }: { peer: PeerView }) {
  if (isUp) return <Badge tone="good">answers</Badge>
  return (
    <>
      <Badge tone="bad">does not answer</Badge> {problem !== null && <Foreign text={problem} />}
    </>
  )
}

/** Clocks are compared to half a round trip. */
function ahead(ms: number | null): string {
  if (ms === null) return '–'
  return ms < 0 ? `−${duration(-ms)}` : duration(ms)
}

function SharedLimits({ regions: { limits } }: RegionsProps) {
  return (
    <Panel title="Limits that regions share">
      <Table
        label="Limits that regions share"
        rows={limits}
        keyOf={({ name }) => name}
        empty="Each limit counts for this region alone: none has a mode."
        columns={[
          { name: 'Limit', cell: ({ name }) => name },
          {
            name: 'Guarantee',
            cell: ({ guarantee, warnings }) => (
              <>
                {guarantee}
                {warnings.map((warning) => (
                  <p class="note" key={warning}>
                    <Badge tone="warn">{warning}</Badge>
                  </p>
                ))}
              </>
            ),
          },
          {
            name: 'Decisions',
            cell: ({ perSecond }) =>
              perSecond.length === 0
                ? 'none in the last second'
                : perSecond.map(({ by, count }) => (
                    <div key={by}>
                      {rate(count)} {ways[by] ?? by}
                    </div>
                  )),
          },
        ]}
      />
    </Panel>
  )
}
