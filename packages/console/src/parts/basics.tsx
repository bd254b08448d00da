/** The small parts that all screens share. Texts of clients are text nodes, always. */

import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { mayDo, type Role, session } from '../api.ts'
import { ago, date, moment, plain, utc } from '../text.ts'

export function Panel(props: {
  title: string
  note?: ComponentChildren
  side?: ComponentChildren
  children: ComponentChildren
}) {
  const id = useId()
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{props.title}</h2>
        {props.side}
      </header>
      {props.note && <p class="note">{props.note}</p>}
      {props.children}
    </section>
  )
}

export function Stat(props: {
  label: string
  value: string
  hint?: string
  tone?: 'good' | 'bad' | 'warn'
}) {
  return (
    <div class={`stat ${props.tone ?? ''}`}>
      <dt>{props.label}</dt>
      <dd>{props.value}</dd>
      {props.hint && <dd class="hint">{props.hint}</dd>}
    </div>
  )
}

/** A word with a shape, so that the colour is not alone. */
export function Badge(props: {
  tone: 'good' | 'bad' | 'warn' | 'plain'
  children: ComponentChildren
}) {
  const shape = { good: '●', bad: '■', warn: '▲', plain: '○' }[props.tone]
  return (
    <span class={`badge ${props.tone}`}>
      <span aria-hidden="true">{shape}</span> {props.children}
    </span>
  )
}

/** A text that a client has chosen. */
export function Foreign({ text }: { text: string }) {
  return <bdi class="foreign">{plain(text)}</bdi>
}

export function Time({ at }: { at: number | string | null }) {
  if (at === null) return <>–</>
  return (
    <time dateTime={utc(at)} title={`${utc(at)} (UTC)`}>
      {moment(at)}
    </time>
  )
}

/** How long ago; its title has the time. */
export function Age({ at }: { at: string }) {
  return (
    <time dateTime={utc(at)} title={`${moment(at)}, ${utc(at)} (UTC)`}>
      {ago(at)}
    </time>
  )
}

/** A time of which the day is enough; its title has the rest. */
export function Day({ at }: { at: string | null }) {
  if (at === null) return <>never</>
  return (
    <time dateTime={utc(at)} title={`${utc(at)} (UTC)`}>
      {date(at)}
    </time>
  )
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>
}

export function Problem({ error }: { error: string | undefined }) {
  if (error === undefined) return null
  return (
    <p class="problem" role="alert">
      <span aria-hidden="true">■</span> {plain(error)}
    </p>
  )
}

/** Shows actions to those that may use them, and tells the others why there are none. */
export function Needs(props: { least: Role; to: string; children: ComponentChildren }) {
  if (mayDo(props.least)) return <>{props.children}</>
  const own = session.value?.role ?? 'read'
  return (
    <p class="note needs">
      Your role is {own}. To {props.to}, the role {props.least} is needed.
    </p>
  )
}

export function Field(props: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is a child.
    <label class="field">
      <span>{props.label}</span>
      {props.children}
      {props.hint && <small>{props.hint}</small>}
    </label>
  )
}

export interface Column<Row> {
  readonly name: string
  readonly isNumber?: boolean
  /** Left out on narrow screens. */
  readonly isWide?: boolean
  cell(row: Row): ComponentChildren
}

export function Table<Row>(props: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  empty: ComponentChildren
}) {
  const { label, columns, rows, keyOf, empty } = props
  if (rows.length === 0) return <Empty>{empty}</Empty>
  const classOf = ({ isNumber, isWide }: Column<Row>) =>
    `${isNumber ? 'number' : ''} ${isWide ? 'wide' : ''}`
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls needs the keyboard.
    <section class="scroll" tabIndex={0} aria-label={`${label}, a table`}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={classOf(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.name} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** A bar of a share with its text beside it. */
export function Meter({ part, all }: { part: number; all: number }) {
  const share = all <= 0 ? 0 : Math.min(1, part / all)
  const tone = share >= 0.99 ? 'bad' : share >= 0.75 ? 'warn' : ''
  return (
    <svg class={`meter ${tone}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="8" rx="2" />
      <rect class="fill" width={share * 100} height="8" rx="2" />
    </svg>
  )
}
