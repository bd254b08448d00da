/** Audit records, the latest first, in pages. */

import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { slow } from '../feed.ts'
import { Badge, Field, Foreign, Panel, Problem, Table, Time } from '../parts/basics.tsx'
import { useLoaded } from '../parts/use-loaded.ts'
import { go, place } from '../router.ts'

interface AuditRecord {
  readonly id: number
  readonly at: string
  readonly actor: { readonly name: string; readonly kind: string }
  readonly ip?: string
  readonly action: string
  readonly target: Readonly<Record<string, string>>
  readonly before?: unknown
  readonly after?: unknown
  readonly reason?: string
  readonly result: string
}

interface Page {
  readonly records: readonly AuditRecord[]
  readonly next: number | null
}

/** Rows of a page: more would take longer to draw than to read. */
const COUNT = 100

const fields = ['actor', 'action', 'target', 'result'] as const

export function AuditScreen() {
  const { query } = place.value
  const [before, setBefore] = useState<number>()
  const filter = Object.fromEntries(
    fields.flatMap((name) => {
      const value = query.get(name)
      return value === null || value === '' ? [] : [[name, value]]
    }),
  ) as Record<string, string>
  const params = new URLSearchParams({
    ...filter,
    count: String(COUNT),
    ...(before !== undefined && { before: String(before) }),
  })
  const newest = before === undefined ? slow.value?.changes[0]?.id : undefined
  const load = () => call<Page>('GET', `/v1/audit?${params}`)
  const { value, error } = useLoaded(load, [params.toString(), newest])
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const wanted = fields.map((name) => [name, String(form.get(name) ?? '').trim()] as const)
    setBefore(undefined)
    go('audit', Object.fromEntries(wanted.filter(([, text]) => text !== '')))
  }
  return (
    <>
      <form class="filters" onSubmit={submit}>
        {fields.map((name) => (
          <Field key={name} label={name[0]?.toUpperCase() + name.slice(1)}>
            <input name={name} defaultValue={filter[name] ?? ''} autoComplete="off" />
          </Field>
        ))}
        <button type="submit">Filter</button>
        <a href="../v1/audit/export" download="audit.ndjson">
          Export
        </a>
      </form>
      <Verify />
      <Problem error={error} />
      <Panel title="Records">
        <Table
          label="Audit records"
          rows={value?.records ?? []}
          keyOf={({ id }) => String(id)}
          empty={value === undefined ? 'Reading …' : 'No record fits.'}
          columns={columns}
        />
        <p class="buttons">
          {before !== undefined && (
            <button type="button" onClick={() => setBefore(undefined)}>
              Latest
            </button>
          )}
          {value?.next && (
            <button type="button" onClick={() => setBefore(value.next ?? undefined)}>
              Older
            </button>
          )}
        </p>
      </Panel>
    </>
  )
}

const columns = [
  { name: 'No.', isNumber: true, isWide: true, cell: ({ id }: AuditRecord) => id },
  { name: 'At', cell: ({ at }: AuditRecord) => <Time at={at} /> },
  { name: 'By', cell: ({ actor }: AuditRecord) => <Foreign text={actor.name} /> },
  { name: 'Action', cell: ({ action }: AuditRecord) => action },
  {
    name: 'Target',
    isWide: true,
    cell: ({ target }: AuditRecord) => <Foreign text={Object.values(target).join(' ')} />,
  },
  {
    name: 'Result',
    cell: ({ result }: AuditRecord) => (
      <Badge tone={result === 'done' ? 'good' : result === 'denied' ? 'bad' : 'warn'}>
        {result}
      </Badge>
    ),
  },
  { name: 'Reason', cell: ({ reason }: AuditRecord) => <Foreign text={reason ?? ''} /> },
  {
    name: 'Change',
    isWide: true,
    cell: ({ before, after }: AuditRecord) => {
      if (before === undefined && after === undefined) return null
      return (
        <details>
          <summary>Show</summary>
          <Foreign text={`before ${JSON.stringify(before ?? null)}`} />
          <br />
          <Foreign text={`after ${JSON.stringify(after ?? null)}`} />
        </details>
      )
    },
  },
]

function Verify() {
  const [text, setText] = useState<string>()
  const verify = async () => {
    setText('Reading all records …')
    try {
      const found = await call<{ ok: boolean; records?: number; at?: number; problem?: string }>(
        'GET',
        '/v1/audit/verify',
      )
      setText(
        found.ok
          ? `The chain of ${found.records} records is whole.`
          : `Record ${found.at}: ${found.problem}.`,
      )
    } catch (failure) {
      setText((failure as Error).message)
    }
  }
  return (
    <p class="verify">
      <button type="button" onClick={() => void verify()}>
        Verify the chain
      </button>{' '}
      <span role="status">{text}</span>
    </p>
  )
}
