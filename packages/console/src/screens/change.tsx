/** A change of the policy: problems as you type, what it would have done, and its publication. */

import { useEffect, useRef, useState } from 'preact/hooks'
import type { WhatIf, WhatIfLimit } from '../../../server/src/admin/console/console-types.ts'
import { ApiProblem, call } from '../api.ts'
import { slow, tick } from '../feed.ts'
import { Action, type Done } from '../parts/action.tsx'
import { Empty, Foreign, Needs, Panel, Problem, Table } from '../parts/basics.tsx'
import { Diff } from '../parts/diff.tsx'
import { Editor } from '../parts/editor.tsx'
import { useLoaded } from '../parts/use-loaded.ts'
import { link } from '../router.ts'
import { count, plain, share } from '../text.ts'
import {
  abortCanary,
  CanaryPanel,
  type Destination,
  DestinationFields,
  placeOf,
} from './canary.tsx'
import { Nodes } from './nodes.tsx'

export interface Version {
  readonly version: number
  readonly by: string
  readonly at: string
  readonly why: string
  readonly text: string
  readonly parent?: number
  readonly rollbackOf?: number
}

interface Begun {
  readonly canary: { readonly version: number }
}

const TRY_AFTER_MS = 400

export function ChangeScreen() {
  const load = () => call<{ current: Version | null }>('GET', '/v1/policy')
  const { value, error, reload } = useLoaded(load, [])
  const hasVersions = tick.value?.state.scope === 'fleet'
  if (value === undefined) return <Problem error={error} />
  return (
    <>
      {!hasVersions && (
        <p class="banner grey">
          This node follows its file, which has no versions: a policy can be tried here, and is live
          when the file is changed. With control.etcd it can be published from here.
        </p>
      )}
      <Draft key={value.current?.version} current={value.current} {...{ hasVersions, reload }} />
    </>
  )
}

interface DraftProps {
  readonly current: Version | null
  readonly hasVersions: boolean
  reload(): void
}

function Draft({ current, hasVersions, reload }: DraftProps) {
  const [text, setText] = useState(current?.text ?? '')
  const tried = useTried(text)
  const [conflict, setConflict] = useState<string>()
  const newest = slow.value?.published ?? 0
  const isBehind = hasVersions && newest > (current?.version ?? 0)
  const isChanged = text !== (current?.text ?? '')
  return (
    <>
      {isBehind && (
        <p class="banner warn" role="status">
          Version {newest} is live meanwhile.{' '}
          <button type="button" onClick={reload}>
            Load it, and lose this draft
          </button>
        </p>
      )}
      <Panel
        title={current === null ? 'Policy' : `Policy, from version ${current.version}`}
        side={
          hasVersions && (
            <Needs least="admin" to="publish">
              <Publish
                {...{ text, current, setConflict, reload, tried: tried.result }}
                isReady={isChanged && tried.result?.problems.length === 0}
              />
            </Needs>
          )
        }
      >
        <Editor text={text} onText={setText} problems={tried.result?.problems ?? []} />
        <Problem error={tried.error} />
        <Problems problems={tried.result?.problems} isEmpty={text.trim() === ''} />
      </Panel>
      <CanaryPanel />
      {conflict !== undefined && (
        <Panel title="Another version came first" note="From the version that you have seen to it:">
          <Diff text={conflict} />
        </Panel>
      )}
      {tried.result !== undefined && tried.result.problems.length === 0 && (
        <Effect found={tried.result} />
      )}
      {isChanged && current !== null && (
        <Panel title="Difference to the live version">
          <Diff text={lineDiff(current.text, text)} />
        </Panel>
      )}
      {hasVersions && <Nodes />}
    </>
  )
}

function useTried(text: string) {
  const [result, setResult] = useState<WhatIf>()
  const [error, setError] = useState<string>()
  const turn = useRef(0)
  useEffect(() => {
    turn.current += 1
    const own = turn.current
    if (text.trim() === '') return setResult(undefined)
    const timer = setTimeout(async () => {
      try {
        const found = await call<WhatIf>('POST', '/v1/policy/what-if', { body: { text } })
        if (own !== turn.current) return
        setResult(found)
        setError(undefined)
      } catch (failure) {
        if (own === turn.current) setError((failure as Error).message)
      }
    }, TRY_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return { result, error }
}

function Problems(props: { problems: readonly string[] | undefined; isEmpty: boolean }) {
  if (props.isEmpty) return <Empty>Write or paste a policy. docs/policy.md has every field.</Empty>
  if (props.problems === undefined) return <p class="note">Checking …</p>
  if (props.problems.length === 0) {
    return (
      <p class="note" role="status">
        The policy is valid.
      </p>
    )
  }
  return (
    <ul class="problems" aria-label="Problems">
      {props.problems.map((one) => (
        <li key={one}>{plain(one)}</li>
      ))}
    </ul>
  )
}

function Publish(
  props: Pick<DraftProps, 'current' | 'reload'> & {
    text: string
    isReady: boolean
    tried: WhatIf | undefined
    setConflict: (diff: string) => void
  },
) {
  const { text, current, isReady, tried, setConflict, reload } = props
  const [to, setTo] = useState<Destination>('all')
  if (!isReady) return <span class="note">A change without problems can be published.</span>
  const seen = current?.version ?? 0
  const nodes = slow.value?.nodes.length ?? 0
  const headers = { 'if-match': `"${seen}"` }
  const publish = async (why: string): Promise<Done> => {
    const body = { text, why }
    const { version } = await call<Version>('PUT', '/v1/policy', { body, headers })
    reload()
    return {
      text: `Version ${version} is published.`,
      undo: seen === 0 ? undefined : () => rollBack(seen, version, `undo: ${why}`),
    }
  }
  const begin = async (why: string, form: FormData): Promise<Done> => {
    const body = { text, why, where: placeOf(to, form), for: form.get('for') }
    const { canary } = await call<Begun>('PUT', '/v1/policy/canary', { body, headers })
    return {
      text: `Version ${canary.version} is published as a canary.`,
      undo: () => abortCanary(`undo: ${why}`),
    }
  }
  return (
    <Action
      name="Publish"
      title="Publish this policy"
      submit={to === 'all' ? `Publish to ${nodes} nodes` : 'Begin the canary'}
      effect={
        <p>
          {to === 'all'
            ? `It replaces version ${seen} on ${nodes} nodes within a second. `
            : `Some of ${nodes} nodes get it, for a time. The others keep version ${seen}. `}
          {slow.value?.canary && 'It ends the canary that runs. '}
          {tried && summary(tried)} {to === 'all' && seen > 0 && 'Versions has the way back.'}
        </p>
      }
      fields={<DestinationFields to={to} setTo={setTo} />}
      run={async (why, form) => {
        try {
          return await (to === 'all' ? publish(why) : begin(why, form))
        } catch (error) {
          if (error instanceof ApiProblem && typeof error.body.diff === 'string') {
            setConflict(error.body.diff)
          }
          throw error
        }
      }}
    />
  )
}

/** Publishes an earlier text again, if `seen` is still the live version. */
export function rollBack(to: number, seen: number, why: string): Promise<Version> {
  const headers = { 'if-match': `"${seen}"` }
  return call('POST', '/v1/policy/rollback', { body: { to, why: why.slice(0, 500) }, headers })
}

function summary({ limits, added, removed, unchanged }: WhatIf): string {
  const counts = `${added.length} new, ${removed.length} removed, ${unchanged} unchanged`
  return `Limits: ${limits.length} changed, ${counts}.`
}

function Effect({ found }: { found: WhatIf }) {
  const minutes = found.seconds / 60
  return (
    <Panel
      title="What it would have done"
      note={`The last ${minutes} minutes of this node, with both numbers. Keys are a sample.`}
    >
      <p class="verdict">{summary(found)}</p>
      {found.added.length > 0 && (
        <p class="note">
          New limits cannot be replayed; mode: shadow shows what they would refuse:{' '}
          {found.added.slice(0, 20).map(plain).join(', ')}
        </p>
      )}
      {found.removed.length > 0 && (
        <p class="note">Removed: {found.removed.slice(0, 20).map(plain).join(', ')}</p>
      )}
      {found.limits.length > 0 && (
        <Table
          label="What it would have done"
          rows={found.limits}
          keyOf={({ name }) => name}
          empty=""
          columns={[
            { name: 'Limit', cell: ({ name }) => <a href={link('limits', { name })}>{name}</a> },
            { name: 'Now', cell: ({ before }) => before },
            { name: 'Then', cell: ({ after }) => after },
            { name: 'Refused now', isNumber: true, cell: (row) => part(row, row.deniedBefore) },
            { name: 'Refused then', isNumber: true, cell: (row) => part(row, row.deniedAfter) },
            {
              name: 'Clients refused that were not',
              cell: (row) => <Newly {...row} />,
            },
          ]}
        />
      )}
    </Panel>
  )
}

function part({ asked, reason }: WhatIfLimit, denied: number): string {
  return reason === null ? `${share(denied, asked)} (${count(denied)})` : '–'
}

function Newly({ reason, newlyRefused, newlyRefusedKeys, keys, keysSeen }: WhatIfLimit) {
  if (reason !== null) return <>Not known: {reason}</>
  return (
    <>
      {newlyRefusedKeys} of {keys}
      {keysSeen > keys && ` (a sample of about ${count(keysSeen)})`}
      {newlyRefused.length > 0 && (
        <details>
          <summary>Which</summary>
          <ul>
            {newlyRefused.map(({ key, denied }) => (
              <li key={key}>
                <Foreign text={key} />: {count(denied)}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

/** Lines that only one of the texts has, around a common beginning and end. */
function lineDiff(before: string, after: string): string {
  const [old, now] = [before.split('\n'), after.split('\n')]
  let head = 0
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1
  let tail = 0
  while (
    tail < old.length - head &&
    tail < now.length - head &&
    old[old.length - 1 - tail] === now[now.length - 1 - tail]
  ) {
    tail += 1
  }
  const context = old.slice(Math.max(0, head - 3), head).map((line) => ` ${line}`)
  const removed = old.slice(head, old.length - tail).map((line) => `-${line}`)
  const added = now.slice(head, now.length - tail).map((line) => `+${line}`)
  const end = old.slice(old.length - tail, old.length - tail + 3).map((line) => ` ${line}`)
  const place = `@@ line ${head + 1} @@`
  return [place, ...context, ...removed, ...added, ...end].join('\n')
}
