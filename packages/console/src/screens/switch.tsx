/** The switch for emergencies: off in two steps, with a reason and an end. */

import { call, mayDo } from '../api.ts'
import { slow } from '../feed.ts'
import { Action } from '../parts/action.tsx'
import { Badge, Foreign, Needs, Panel, Time } from '../parts/basics.tsx'
import { EndFields, endOf } from './end-fields.tsx'

interface State {
  readonly limits: string
  readonly blocks: string
}

export function SwitchScreen() {
  const live = slow.value?.switch
  if (live === undefined) return null
  const before: State = { limits: live.limits, blocks: live.blocks }
  const isOn = live.limits === 'on' && live.blocks === 'on'
  return (
    <>
      <Panel title="State">
        <p class="verdict">
          Limits <Badge tone={toneOf(live.limits)}>{live.limits}</Badge>
          Blocks <Badge tone={toneOf(live.blocks)}>{live.blocks}</Badge>
        </p>
        {!isOn && (
          <p class="note">
            By <Foreign text={live.by ?? ''} />: <Foreign text={live.why ?? ''} />. Until{' '}
            <Time at={live.until} />.
          </p>
        )}
      </Panel>
      <Panel title="Change it">
        <Needs least="operate" to="use the switch">
          <div class="choices">
            {!isOn && (
              <Choice
                name="Turn everything on"
                effect="Limits refuse again, and blocks hold, with the next request."
                target={{ limits: 'on', blocks: 'on' }}
                before={before}
              />
            )}
            <Choice
              name="Shadow"
              effect="All limits count and refuse nothing. Blocks stay. Every client is admitted."
              target={{ limits: 'shadow', blocks: 'on' }}
              before={before}
            />
            {mayDo('admin') ? (
              <>
                <Choice
                  name="Limits off"
                  effect="Nothing is counted and nothing is refused by limits. Blocks stay."
                  target={{ limits: 'off', blocks: 'on' }}
                  before={before}
                  confirm="off"
                />
                <Choice
                  name="Limits and blocks off"
                  effect="Every client is admitted, also those that are blocked."
                  target={{ limits: 'off', blocks: 'off' }}
                  before={before}
                  confirm="off"
                />
              </>
            ) : (
              <p class="note needs">To turn limits or blocks off, the role admin is needed.</p>
            )}
          </div>
        </Needs>
      </Panel>
    </>
  )
}

function toneOf(state: string): 'good' | 'bad' {
  return state === 'on' ? 'good' : 'bad'
}

function Choice(props: {
  name: string
  effect: string
  target: State
  before: State
  confirm?: string
}) {
  const { name, effect, target, before, confirm } = props
  const set = (state: State, end: object, why: string) =>
    call('PUT', '/v1/switch', { body: { ...state, ...end, why: why.slice(0, 500) } })
  return (
    <article class="card">
      <h3>{name}</h3>
      <p class="note">{effect}</p>
      <Action
        name={`${name} …`}
        title={name}
        submit={name}
        effect={`${effect} On ${slow.value?.nodes.length ?? 1} nodes.`}
        isDanger={target.limits !== 'on'}
        {...(confirm !== undefined && { confirm })}
        fields={target.limits === 'on' ? undefined : <EndFields />}
        run={async (why, form) => {
          await set(target, target.limits === 'on' ? {} : endOf(form), why)
          return {
            text: `The switch: ${name}.`,
            undo: () => set(before, before.limits === 'on' ? {} : { for: '1h' }, `undo: ${why}`),
          }
        }}
      />
    </article>
  )
}
