/**
 * A change of an operator: a dialog with the effect, its fields and a reason, and after it a notice
 * with the way back, which stays until it is closed.
 */

import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Problem } from './basics.tsx'

export interface Done {
  readonly text: string
  /** Takes the change back; undefined if it cannot be. */
  readonly undo?: (() => Promise<unknown>) | undefined
}

/** The last change, shown on every screen. */
export const lastDone = signal<Done | undefined>(undefined)

export function Notice() {
  const done = lastDone.value
  const [error, setError] = useState<string>()
  if (done === undefined) return null
  const undo = async () => {
    setError(undefined)
    try {
      await done.undo?.()
      lastDone.value = { text: `Undone: ${done.text}` }
    } catch (failure) {
      setError((failure as Error).message)
    }
  }
  return (
    <div class="notice" role="status">
      <span>{done.text}</span>
      <Problem error={error} />
      <span class="buttons">
        {done.undo && (
          <button type="button" onClick={undo}>
            Undo
          </button>
        )}
        <button type="button" class="quiet" onClick={() => (lastDone.value = undefined)}>
          Close
        </button>
      </span>
    </div>
  )
}

interface ActionProps {
  readonly name: string
  readonly title: string
  /** What will happen, before it does. */
  readonly effect: ComponentChildren
  readonly submit: string
  readonly isDanger?: boolean
  readonly fields?: ComponentChildren
  /** The text that has to be typed first. */
  readonly confirm?: string
  run(why: string, form: FormData): Promise<Done>
}

/** A button that opens the dialog of a change. */
export function Action(props: ActionProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" class={props.isDanger ? 'danger' : ''} onClick={() => setOpen(true)}>
        {props.name}
      </button>
      {isOpen && <ActionDialog {...props} onClose={() => setOpen(false)} />}
    </>
  )
}

function ActionDialog(props: ActionProps & { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const [typed, setTyped] = useState('')
  useEffect(() => dialog.current?.showModal(), [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    setBusy(true)
    setError(undefined)
    try {
      lastDone.value = await props.run(String(form.get('why') ?? ''), form)
      props.onClose()
    } catch (failure) {
      setError((failure as Error).message)
      setBusy(false)
    }
  }
  const isLocked = props.confirm !== undefined && typed !== props.confirm
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-label={props.title}>
      <form onSubmit={submit}>
        <h2>{props.title}</h2>
        <div class="effect">{props.effect}</div>
        {props.fields}
        <label class="field">
          <span>Reason</span>
          <input name="why" required maxLength={500} autoComplete="off" />
          <small>Everyone who reads the audit sees it.</small>
        </label>
        {props.confirm !== undefined && (
          <label class="field">
            <span>Type {props.confirm} to confirm</span>
            <input
              value={typed}
              onInput={({ currentTarget }) => setTyped(currentTarget.value)}
              autoComplete="off"
            />
          </label>
        )}
        <Problem error={error} />
        <p class="buttons">
          <button
            type="submit"
            class={props.isDanger ? 'danger' : 'primary'}
            disabled={isBusy || isLocked}
          >
            {props.submit}
          </button>
          <button type="button" class="quiet" onClick={props.onClose}>
            Cancel
          </button>
        </p>
      </form>
    </dialog>
  )
}
