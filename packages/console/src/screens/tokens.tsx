/** Tokens of operators and programs. A secret is shown once. */

import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Action, lastDone } from '../parts/action.tsx'
import { Badge, Day, Field, Foreign, Needs, Panel, Problem, Table, Time } from '../parts/basics.tsx'
import { useLoaded } from '../parts/use-loaded.ts'
import { EndFields, endOf } from './end-fields.tsx'

interface Token {
  readonly id: string
  readonly name: string
  readonly role: string
  readonly by: string
  readonly expires: string | null
  readonly lastUsed?: string | null
}

export function TokensScreen() {
  return (
    <Needs least="admin" to="see and create tokens">
      <Tokens />
    </Needs>
  )
}

function Tokens() {
  const load = () => call<{ tokens: readonly Token[] }>('GET', '/v1/tokens')
  const { value, error, reload } = useLoaded(load, [lastDone.value])
  const [secret, setSecret] = useState<string>()
  return (
    <>
      {secret !== undefined && (
        <Panel title="The new token" note="It is shown once. Copy it now.">
          <p class="secret">
            <code>{secret}</code>{' '}
            <button type="button" onClick={() => void navigator.clipboard?.writeText(secret)}>
              Copy
            </button>{' '}
            <button type="button" class="quiet" onClick={() => setSecret(undefined)}>
              Hide
            </button>
          </p>
        </Panel>
      )}
      <Problem error={error} />
      <Panel title="Tokens" side={<Create onSecret={setSecret} />}>
        <Table
          label="Tokens"
          rows={value?.tokens ?? []}
          keyOf={({ id }) => id}
          empty="There is no token beside the first one of the node."
          columns={[
            { name: 'Name', cell: ({ name }) => <Foreign text={name} /> },
            { name: 'Role', cell: ({ role }) => <Badge tone="plain">{role}</Badge> },
            { name: 'By', isWide: true, cell: ({ by }) => <Foreign text={by} /> },
            { name: 'Ends', cell: ({ expires }) => <Day at={expires} /> },
            {
              name: 'Last used',
              isWide: true,
              cell: ({ lastUsed }) => <Time at={lastUsed ?? null} />,
            },
            {
              name: 'Actions',
              cell: ({ id, name }) => (
                <Action
                  name="Revoke"
                  title={`Revoke the token of ${name}`}
                  isDanger
                  submit="Revoke"
                  effect="It and its sessions end at once. This cannot be undone."
                  run={async (why) => {
                    await call('POST', '/v1/tokens/revoke', { body: { id, why } })
                    reload()
                    return { text: 'The token is revoked.' }
                  }}
                />
              ),
            },
          ]}
        />
      </Panel>
    </>
  )
}

function Create({ onSecret }: { onSecret: (secret: string) => void }) {
  return (
    <Action
      name="Create a token"
      title="Create a token"
      submit="Create"
      effect="It may do what its role may, until it ends or is revoked."
      fields={
        <>
          <Field label="Name" hint="The person or program that uses it.">
            <input name="name" required maxLength={64} autoComplete="off" />
          </Field>
          <Field label="Role">
            <select name="role">
              <option>read</option>
              <option>operate</option>
              <option>admin</option>
            </select>
          </Field>
          <EndFields />
        </>
      }
      run={async (why, form) => {
        const body = { name: form.get('name'), role: form.get('role'), ...endOf(form), why }
        const { token } = await call<{ token: string }>('POST', '/v1/tokens', { body })
        onSecret(token)
        return { text: 'The token is created.' }
      }}
    />
  )
}
