/**
 * Keys for operators that know the page: `g` and a letter for a screen, `/` for the search of a
 * screen, `?` for the list. They do nothing while a text is typed or a dialog is open, and can be
 * turned off, because speech input and slips of the hand press single letters.
 */

import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { mayDo } from './api.ts'
import { go } from './router.ts'

export interface Target {
  readonly id: string
  readonly name: string
  /** The letter after `g`. */
  readonly letter: string
}

const STORED = 'tidegate-shortcuts'

/** A letter later than this does not belong to its `g` any more. */
const SEQUENCE_MS = 1_500

const searches = 'main [type=search], main input[name=value], main .filters input'

const isShown = signal(false)
const isOn = signal(read())

export function showShortcuts(): void {
  isShown.value = true
}

export function Shortcuts({ targets }: { targets: readonly Target[] }) {
  useEffect(() => {
    let firstMs = -Infinity
    const onKey = (event: KeyboardEvent) => {
      if (!isOn.value || isBusy(event)) return
      const isSecond = event.timeStamp - firstMs < SEQUENCE_MS
      firstMs = event.key === 'g' && !isSecond ? event.timeStamp : -Infinity
      const target = isSecond && targets.find(({ letter }) => letter === event.key)
      if (target) go(target.id)
      else if (event.key === '?') showShortcuts()
      else if (event.key === '/') focusSearch()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [targets])
  return isShown.value ? <Help targets={targets} /> : null
}

function isBusy({ target, ctrlKey, metaKey, altKey }: KeyboardEvent): boolean {
  if (ctrlKey || metaKey || altKey || document.querySelector('dialog[open]')) return true
  return target instanceof Element && target.closest('input, textarea, select') !== null
}

/** A screen without a search leads to the look-up of a client. */
function focusSearch(): void {
  const found = document.querySelector<HTMLElement>(searches)
  if (found !== null) {
    found.focus()
    return
  }
  go(mayDo('operate') ? 'client' : 'limits')
  // The next screen takes the focus when it is drawn.
  setTimeout(() => document.querySelector<HTMLElement>(searches)?.focus(), 100)
}

function Help({ targets }: { targets: readonly Target[] }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const close = () => (isShown.value = false)
  const rows = [
    ...targets.map(({ letter, name }) => [['g', letter], name] as const),
    [['/'], 'Search on this screen, or look up a client'] as const,
    [['?'], 'This list'] as const,
    [['Esc'], 'Close a dialog'] as const,
  ]
  return (
    <dialog ref={dialog} onClose={close} aria-label="Keyboard shortcuts">
      <h2>Keyboard shortcuts</h2>
      <dl class="keys">
        {rows.map(([keys, name]) => (
          <div key={name}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
      </dl>
      <p class="buttons">
        <label class="check">
          <input
            type="checkbox"
            checked={isOn.value}
            onChange={({ currentTarget }) => turn(currentTarget.checked)}
          />
          Shortcuts are on
        </label>
        <button type="button" class="primary" onClick={close}>
          Close
        </button>
      </p>
    </dialog>
  )
}

function turn(next: boolean): void {
  isOn.value = next
  try {
    localStorage.setItem(STORED, next ? 'on' : 'off')
  } catch {
    // A browser may refuse to keep it; the choice holds for this page.
  }
}

function read(): boolean {
  try {
    return localStorage.getItem(STORED) !== 'off'
  } catch {
    return true
  }
}
