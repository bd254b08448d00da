/** A version for a part of the nodes: where it is, and the ways on and back. */

import { call } from '../api.ts'
import { slow } from '../feed.ts'
import { Action } from '../parts/action.tsx'
import { Badge, Field, Foreign, Needs, Panel, Time } from '../parts/basics.tsx'

export function CanaryPanel() {
  const { canary, nodes = [] } = slow.value ?? {}
  if (canary === null || canary === undefined) return null
  const { version, where, until } = canary
  const chosen = nodes.filter(({ isCanary }) => isCanary)
  const arrived = chosen.filter((node) => node.version === version)
  const refused = chosen.filter(({ state }) => state === 'refused')
  const tone = refused.length > 0 ? 'bad' : arrived.length === chosen.length ? 'good' : 'warn'
  return (
    <Panel
      title={`Canary of version ${version}`}
      side={
        <span class="buttons">
          <Needs least="admin" to="promote it">
            <Promote version={version} />
          </Needs>
          <Needs least="operate" to="end it">
            <Abort version={version} />
          </Needs>
        </span>
      }
    >
      <p class="verdict" role="status">
        <Badge tone={tone}>
          on {arrived.length} of {chosen.length} nodes
        </Badge>
        {refused.length > 0 && <Badge tone="bad">refused by {refused.length}</Badge>}
      </p>
      <p class="note">
        For <Foreign text={where} />, until <Time at={until} />. Then its nodes return to the
        version of all.
      </p>
    </Panel>
  )
}

function Promote({ version }: { version: number }) {
  const nodes = slow.value?.nodes.length ?? 0
  return (
    <Action
      name="Promote"
      title={`Publish version ${version} for all nodes`}
      submit="Promote"
      effect={`All ${nodes} nodes get it within a second. Versions has the way back.`}
      run={async (why) => {
        await call('POST', '/v1/policy/canary/promote', { body: { why } })
        return { text: `Version ${version} is published for all nodes.` }
      }}
    />
  )
}

function Abort({ version }: { version: number }) {
  return (
    <Action
      name="Abort"
      title="End the canary"
      isDanger
      submit="End the canary"
      effect="Its nodes return to the version of all nodes, within a second."
      run={async (why) => {
        await abortCanary(why)
        return { text: `The canary of version ${version} has ended.` }
      }}
    />
  )
}

export function abortCanary(why: string): Promise<unknown> {
  return call('POST', '/v1/policy/canary/abort', { body: { why: why.slice(0, 500) } })
}

export const destinations = {
  all: 'All nodes',
  share: 'A canary: a share of the nodes',
  region: 'A canary: the nodes of a region',
  nodes: 'A canary: nodes by name',
} as const

export type Destination = keyof typeof destinations

const times = ['15m', '30m', '1h', '4h', '24h'] as const

interface DestinationProps {
  readonly to: Destination
  setTo(to: Destination): void
}

export function DestinationFields({ to, setTo }: DestinationProps) {
  const nodes = slow.value?.nodes ?? []
  const regions = [...new Set(nodes.flatMap(({ region }) => region ?? []))].sort()
  return (
    <>
      <Field label="To">
        <select
          value={to}
          onChange={({ currentTarget }) => setTo(currentTarget.value as Destination)}
        >
          {Object.entries(destinations).map(([id, name]) => (
            <option key={id} value={id} disabled={id === 'region' && regions.length === 0}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      {to === 'share' && (
        <Field label="Share in percent" hint="Nodes are chosen by a hash of their names.">
          <input name="share" type="number" min={1} max={100} required defaultValue="10" />
        </Field>
      )}
      {to === 'region' && (
        <Field label="Region">
          <select name="region">
            {regions.map((region) => (
              <option key={region}>{region}</option>
            ))}
          </select>
        </Field>
      )}
      {to === 'nodes' && (
        <fieldset class="names">
          <legend>Nodes</legend>
          {[...new Set(nodes.map(({ node }) => node))].map((node) => (
            <label key={node} class="check">
              <input type="checkbox" name="nodes" value={node} />
              <Foreign text={node} />
            </label>
          ))}
        </fieldset>
      )}
      {to !== 'all' && (
        <Field label="Holds for" hint="Then it ends by itself.">
          <select name="for">
            {times.map((one) => (
              <option key={one} selected={one === '30m'}>
                {one}
              </option>
            ))}
          </select>
        </Field>
      )}
    </>
  )
}

/** The place of a canary as the admin API takes it. */
export function placeOf(to: Destination, form: FormData): object {
  if (to === 'region') return { region: form.get('region') }
  if (to === 'share') return { share: Number(form.get('share')) / 100 }
  const nodes = form.getAll('nodes')
  if (nodes.length === 0) throw new Error('Choose at least one node.')
  return { nodes }
}
