/** Will this request pass? The verdict of every limit, with the rule that decided. */

import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { Badge, Empty, Field, Foreign, Panel, Problem, Table } from '../parts/basics.tsx'

interface Explained {
  readonly verdict: {
    readonly outcome: string
    readonly status?: number
    readonly by?: string
    readonly reason: string
  }
  readonly tier?: string
  readonly ip?: string
  readonly limits: readonly ExplainedLimit[]
}

interface ExplainedLimit {
  readonly name: string
  readonly mode: string
  readonly applies: boolean
  readonly reason?: string
  readonly keyKind?: string
  readonly keyParts?: readonly string[]
  readonly cost?: number
  readonly limit?: { readonly limit: number; readonly algorithm: string }
  readonly source?: string
  readonly instead?: readonly string[]
}

export function ExplainScreen() {
  const [found, setFound] = useState<Explained>()
  const [error, setError] = useState<string>()
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    setError(undefined)
    try {
      setFound(await call<Explained>('POST', '/v1/explain', { body: bodyOf(form) }))
    } catch (failure) {
      setError((failure as Error).message)
    }
  }
  return (
    <>
      <Panel title="Request" note="Nothing is sent and nothing is charged.">
        <form class="grid" onSubmit={submit}>
          <Field label="Method">
            <input name="method" defaultValue="GET" required autoComplete="off" />
          </Field>
          <Field label="Path">
            <input name="path" defaultValue="/" required autoComplete="off" spellcheck={false} />
          </Field>
          <Field label="Address">
            <input name="ip" defaultValue="127.0.0.1" required autoComplete="off" />
          </Field>
          <Field label="User">
            <input name="user" autoComplete="off" />
          </Field>
          <Field label="Organisation">
            <input name="organisation" autoComplete="off" />
          </Field>
          <Field label="Tier">
            <input name="tier" autoComplete="off" />
          </Field>
          <div class="broad">
            <Field label="Header fields" hint="One in each line, such as x-api-key: …">
              <textarea name="headers" rows={3} spellcheck={false} />
            </Field>
          </div>
          <p class="buttons">
            <button type="submit" class="primary">
              Explain
            </button>
          </p>
        </form>
        <Problem error={error} />
      </Panel>
      {found === undefined ? <Empty>The verdict is shown here.</Empty> : <Answer found={found} />}
    </>
  )
}

function bodyOf(form: FormData): object {
  const text = (name: string) => String(form.get(name) ?? '').trim()
  const filled = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, text(name)]).filter(([, value]) => value !== ''))
  const headers = text('headers')
    .split('\n')
    .filter((line) => line.includes(':'))
    .map((line) => [
      line.slice(0, line.indexOf(':')).trim(),
      line.slice(line.indexOf(':') + 1).trim(),
    ])
  return {
    ...filled(['method', 'path', 'ip']),
    headers: Object.fromEntries(headers),
    identity: filled(['user', 'organisation', 'tier']),
  }
}

function Answer({ found }: { found: Explained }) {
  const { verdict, tier, limits } = found
  const isRefused = verdict.outcome === 'refused'
  return (
    <>
      <Panel title="Verdict">
        <p class="verdict" role="status">
          <Badge tone={isRefused ? 'bad' : 'good'}>
            {verdict.outcome}
            {verdict.status !== undefined && ` with ${verdict.status}`}
          </Badge>{' '}
          <Foreign text={verdict.reason} />
          {tier !== undefined && <Badge tone="plain">tier {tier}</Badge>}
        </p>
      </Panel>
      <Panel title="Every limit">
        <Table
          label="Limits"
          rows={limits}
          keyOf={({ name }) => name}
          empty="The policy has no limit."
          columns={[
            {
              name: 'Limit',
              cell: ({ name, mode }) => (
                <>
                  {name} {mode !== 'enforce' && <Badge tone="plain">{mode}</Badge>}
                </>
              ),
            },
            {
              name: 'Applies',
              cell: ({ applies, name }) =>
                name === verdict.by ? (
                  <Badge tone="bad">decides</Badge>
                ) : (
                  <Badge tone={applies ? 'good' : 'plain'}>{applies ? 'yes' : 'no'}</Badge>
                ),
            },
            {
              name: 'Because',
              cell: ({ reason, keyKind, keyParts, source, instead = [] }) => (
                <>
                  {reason ?? (
                    <span>
                      {keyKind} <Foreign text={(keyParts ?? []).join(', ')} />, numbers by {source}
                      {instead.length > 0 && ` instead of ${instead.join(', ')}`}
                    </span>
                  )}
                </>
              ),
            },
            { name: 'Allows', isNumber: true, cell: ({ limit }) => limit?.limit ?? '–' },
            { name: 'Cost', isNumber: true, isWide: true, cell: ({ cost }) => cost ?? '–' },
          ]}
        />
      </Panel>
    </>
  )
}
