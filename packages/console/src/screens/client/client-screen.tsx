/** Is the complaint of this customer true? Every limit of one client, and the ways to help. */

import { useEffect, useState } from 'preact/hooks'
import type { ClientView } from '../../../../server/src/admin/console/console-types.ts'
import { call } from '../../api.ts'
import { tick } from '../../feed.ts'
import { Action, lastDone } from '../../parts/action.tsx'
import { Badge, Empty, Field, Foreign, Needs, Panel, Problem } from '../../parts/basics.tsx'
import { useLoaded } from '../../parts/use-loaded.ts'
import { ago, brief, count, time } from '../../text.ts'
import { EndFields, endOf } from '../end-fields.tsx'
import { type Asked, asked, type ClientKind, guessKind, kinds } from './client-asked.ts'
import { LimitCard } from './limit-card.tsx'

export function ClientScreen() {
  return (
    <Needs least="operate" to="look up a client">
      <Question />
      {asked.value.value !== '' && <Answer asked={asked.value} />}
      {asked.value.value === '' && (
        <Empty>
          Paste an address, the id of an API key, a user or an organisation. Or choose a client from
          the lists of Who is limited.
        </Empty>
      )}
    </Needs>
  )
}

function Question() {
  const { kind, value, method, path } = asked.value
  const [chosen, setChosen] = useState<ClientKind>(kind)
  useEffect(() => setChosen(kind), [kind])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const text = (name: string) => String(form.get(name) ?? '').trim()
    asked.value = {
      kind: chosen,
      value: text('value'),
      method: text('method') || 'GET',
      path: text('path') || '/',
    }
  }
  return (
    <form class="filters" onSubmit={submit} key={`${kind} ${value}`}>
      <Field label="Kind">
        <select
          value={chosen}
          onChange={({ currentTarget }) => setChosen(currentTarget.value as ClientKind)}
        >
          {Object.entries(kinds).map(([id, name]) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      <Field label="Client">
        <input
          name="value"
          defaultValue={value}
          required
          maxLength={256}
          autoComplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => setChosen(guessKind(currentTarget.value) ?? chosen)}
        />
      </Field>
      <Field label="Method">
        <input name="method" defaultValue={method} size={6} autoComplete="off" />
      </Field>
      <Field label="Path">
        <input name="path" defaultValue={path} autoComplete="off" spellcheck={false} />
      </Field>
      <button type="submit" class="primary">
        Look up
      </button>
    </form>
  )
}

/** A refusal in this time is a refusal now. */
const RECENT_MS = 10_000

/** Asked again every few seconds, because counters move. */
const REFRESH_S = 3

function Answer({ asked: wanted }: { asked: Asked }) {
  const turn = Math.floor((tick.value?.atMs ?? 0) / (REFRESH_S * 1_000))
  const { kind, value, method, path } = wanted
  const load = () => call<ClientView>('POST', '/v1/clients/look-up', { body: { ...wanted } })
  const { value: found, error } = useLoaded(load, [
    ...[kind, value, method, path, turn],
    lastDone.value,
  ])
  if (found === undefined || found.kind !== kind) return <Problem error={error} />
  const applied = found.limits.filter(({ state }) => state !== null)
  const others = found.limits.filter(({ state }) => state === null)
  return (
    <>
      <Problem error={error} />
      <Summary client={found} />
      {applied.length === 0 && (
        <Empty>No limit applies to this client for {`${method} ${path}`}.</Empty>
      )}
      <div class="cards">
        {applied.map((limit) => (
          <LimitCard key={limit.name} limit={limit} />
        ))}
      </div>
      {others.length > 0 && (
        <details class="data">
          <summary>{others.length} limits that do not apply, and why</summary>
          <ul>
            {others.map(({ name, reason }) => (
              <li key={name}>
                {name}: {reason}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

function Summary({ client }: { client: ClientView }) {
  const { kind, value, block, tier, list } = client
  const { atMs = 0 } = tick.value ?? {}
  const enforced = client.limits.filter(({ mode }) => mode === 'enforce')
  const refuser =
    enforced.find(({ state }) => state?.left === 0) ??
    enforced.find(({ state }) => atMs - (state?.refusals?.lastMs ?? 0) < RECENT_MS)
  const refusals = refuser?.state?.refusals
  return (
    <Panel
      title="Verdict"
      side={
        block === null ? (
          <BlockAction client={client} />
        ) : (
          <Unblock kind={kind} value={value} blockKind={block.kind} />
        )
      }
    >
      <p class="verdict">
        <Foreign text={value} />{' '}
        {block !== null ? (
          <Badge tone="bad">blocked with {block.answer}</Badge>
        ) : refuser !== undefined ? (
          <Badge tone="bad">refused by {refuser.name}</Badge>
        ) : (
          <Badge tone="good">admitted</Badge>
        )}
        {tier !== null && <Badge tone="plain">tier {tier}</Badge>}
        {list !== null && <Badge tone="plain">on the {list} list</Badge>}
      </p>
      {block !== null && (
        <p class="note">
          {block.untilMs === null
            ? 'The block has no end.'
            : `Blocked until ${time(block.untilMs)}.`}
        </p>
      )}
      {refuser?.state && (
        <p class="note">
          {refuser.name} allows {refuser.state.numbers}; {brief(refuser.state.used)} of{' '}
          {brief(refuser.state.limit)} are used.{' '}
          {refusals && `${count(refusals.count)} refusals, the last ${ago(refusals.lastMs)}. `}
          The client gets 429 with Retry-After.
        </p>
      )}
    </Panel>
  )
}

function BlockAction({ client: { kind, value } }: { client: ClientView }) {
  return (
    <Action
      name="Block"
      title="Block this client"
      isDanger
      submit="Block"
      effect="Every request of this client is refused, before any limit and also in shadow."
      fields={
        <>
          <Field label="Response">
            <select name="answer">
              <option value="403">403 Forbidden</option>
              <option value="429">429 with Retry-After</option>
            </select>
          </Field>
          <EndFields />
        </>
      }
      run={async (why, form) => {
        const answer = Number(form.get('answer'))
        await call('PUT', '/v1/blocks', { body: { kind, value, answer, ...endOf(form), why } })
        return {
          text: 'The client is blocked.',
          undo: () => removeBlock(kind, value, `undo: ${why}`),
        }
      }}
    />
  )
}

function Unblock(props: { kind: string; value: string; blockKind: string }) {
  const { kind, value, blockKind } = props
  if (blockKind !== kind) return <span class="note">Blocked by its {blockKind}.</span>
  return (
    <Action
      name="Unblock"
      title="Remove the block"
      submit="Unblock"
      effect="The limits decide again, with the next request."
      run={async (why) => {
        await removeBlock(kind, value, why)
        return { text: 'The block is removed.' }
      }}
    />
  )
}

function removeBlock(kind: string, value: string, why: string): Promise<unknown> {
  return call('POST', '/v1/blocks/remove', { body: { kind, value, why: why.slice(0, 500) } })
}
