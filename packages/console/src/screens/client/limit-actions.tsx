/** Changes of one limit for one key: override, reset and refund. */

import type { ClientLimitState } from '../../../../server/src/admin/console/console-types.ts'
import { call } from '../../api.ts'
import { Action } from '../../parts/action.tsx'
import { Field } from '../../parts/basics.tsx'
import { brief } from '../../text.ts'
import { EndFields, endOf } from '../end-fields.tsx'

interface ActionsProps {
  readonly name: string
  readonly state: ClientLimitState
}

export function LimitActions({ name, state }: ActionsProps) {
  // The outer key may be that of a fallback too, which a request cannot name.
  if (state.isFallback && state.within !== null) return null
  return (
    <p class="buttons">
      {!state.isFallback && <Override name={name} state={state} />}
      {state.override !== null && <RemoveOverride name={name} state={state} />}
      <Reset name={name} state={state} />
      <Refund name={name} state={state} />
    </p>
  )
}

function entryOf({ name, state }: ActionsProps) {
  return { limit: name, key: state.keyParts }
}

function counterOf(props: ActionsProps) {
  const { within, isFallback, keyKind: kind } = props.state
  return { ...entryOf(props), ...(within !== null && { within }), ...(isFallback && { kind }) }
}

function Override({ name, state }: ActionsProps) {
  const now = `Now ${state.numbers}.`
  const entry = entryOf({ name, state })
  return (
    <Action
      name="Override"
      title={`Other numbers of ${name}`}
      submit="Set the override"
      effect={`${now} The new limit holds for this key alone, with the next request.`}
      fields={
        <>
          <Field label="Limit">
            <input
              name="limit"
              type="number"
              min={0}
              max={1_000_000_000}
              required
              defaultValue={String(state.limit * 2)}
            />
          </Field>
          <EndFields />
        </>
      }
      run={async (why, form) => {
        const set = { limit: Number(form.get('limit')) }
        await call('PUT', '/v1/overrides', { body: { ...entry, set, ...endOf(form), why } })
        return {
          text: `Override of ${name}: ${set.limit}.`,
          undo: () => removeOverride(entry, `undo: ${why}`),
        }
      }}
    />
  )
}

function RemoveOverride(props: ActionsProps) {
  return (
    <Action
      name="Remove override"
      title={`Remove the override of ${props.name}`}
      submit="Remove"
      effect="The numbers of the policy hold again, with the next request."
      run={async (why) => {
        await removeOverride(entryOf(props), why)
        return { text: `The override of ${props.name} is removed.` }
      }}
    />
  )
}

function Reset(props: ActionsProps) {
  const { name, state } = props
  return (
    <Action
      name="Reset"
      title={`Reset ${name}`}
      submit="Reset"
      effect={`Forgets ${brief(state.used)} used units of this key. It cannot be undone.`}
      run={async (why) => {
        await call('POST', '/v1/counters/reset', { body: { ...counterOf(props), why } })
        return { text: `${name} is reset for this key.` }
      }}
    />
  )
}

function Refund(props: ActionsProps) {
  const { name, state } = props
  return (
    <Action
      name="Refund"
      title={`Give units of ${name} back`}
      submit="Refund"
      effect={`${brief(state.used)} units are used. A refund never goes below 0.`}
      fields={
        <Field label="Units">
          <input name="units" type="number" min={1} max={1_000_000_000} required defaultValue="1" />
        </Field>
      }
      run={async (why, form) => {
        const units = Number(form.get('units'))
        await call('POST', '/v1/counters/refund', { body: { ...counterOf(props), units, why } })
        return { text: `${units} units of ${name} were given back.` }
      }}
    />
  )
}

function removeOverride(entry: object, why: string): Promise<unknown> {
  return call('POST', '/v1/overrides/remove', { body: { ...entry, why: why.slice(0, 500) } })
}
