/** Data of a screen that is asked for once, and again when one of its reasons changes. */

import { useCallback, useEffect, useState } from 'preact/hooks'

export interface Loaded<T> {
  readonly value: T | undefined
  readonly error: string | undefined
  reload(): void
}

export function useLoaded<T>(load: () => Promise<T>, reasons: readonly unknown[]): Loaded<T> {
  const [value, setValue] = useState<T>()
  const [error, setError] = useState<string>()
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    let isCurrent = true
    load().then(
      (found) => {
        if (!isCurrent) return
        setValue(() => found)
        setError(undefined)
      },
      (failure: unknown) => {
        if (isCurrent) setError(failure instanceof Error ? failure.message : String(failure))
      },
    )
    return () => {
      isCurrent = false
    }
  }, [...reasons, turn])
  return { value, error, reload: useCallback(() => setTurn((before) => before + 1), []) }
}
