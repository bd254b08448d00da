/** A text area with line numbers, marks at the lines with problems, and completion of fields. */

import { useEffect, useRef, useState } from 'preact/hooks'
import { fieldsAfter, loadSchema } from './policy-fields.ts'

interface EditorProps {
  readonly text: string
  /** Such as `document:3:5: limits[0].per: …`. */
  readonly problems: readonly string[]
  onText(text: string): void
}

export function Editor({ text, problems, onText }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null)
  const gutter = useRef<HTMLPreElement>(null)
  const [hints, setHints] = useState<readonly string[]>([])
  useEffect(() => void loadSchema(), [])
  const marked = new Set(problems.flatMap((one) => Number(/:(\d+):\d+/.exec(one)?.[1] ?? [])))
  const lines = text.split('\n').length
  const numbers = Array.from({ length: lines }, (_, at) => {
    return `${marked.has(at + 1) ? '■' : ' '}${String(at + 1).padStart(4)}`
  })
  const show = (target: HTMLTextAreaElement) => {
    setHints(fieldsAfter(target.value.slice(0, target.selectionStart)))
  }
  const insert = (field: string) => {
    const target = area.current
    if (target === null) return
    const at = target.selectionStart
    const word = /[\w-]*$/.exec(text.slice(0, at))?.[0] ?? ''
    const before = text.slice(0, at - word.length)
    onText(`${before}${field}: ${text.slice(at)}`)
    setHints([])
    target.focus()
    const end = before.length + field.length + 2
    requestAnimationFrame(() => target.setSelectionRange(end, end))
  }
  return (
    <>
      <div class="editor">
        <pre ref={gutter} aria-hidden="true">
          {numbers.join('\n')}
        </pre>
        <textarea
          ref={area}
          aria-label="Policy, as YAML"
          spellcheck={false}
          autoComplete="off"
          wrap="off"
          rows={Math.min(28, Math.max(10, lines + 1))}
          value={text}
          onInput={({ currentTarget }) => {
            onText(currentTarget.value)
            show(currentTarget)
          }}
          onKeyUp={({ currentTarget }) => show(currentTarget)}
          onClick={({ currentTarget }) => show(currentTarget)}
          onScroll={({ currentTarget }) => {
            if (gutter.current !== null) gutter.current.scrollTop = currentTarget.scrollTop
          }}
        />
      </div>
      <p class="hints">
        {hints.length > 0 && <span>Fields here: </span>}
        {hints.map((field) => (
          <button type="button" key={field} class="hint" onClick={() => insert(field)}>
            {field}
          </button>
        ))}
      </p>
    </>
  )
}
