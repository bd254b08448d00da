/** Bounds on lines of the log that repeat. */

/** A client library reports every attempt to connect; one line in this time is enough. */
const INTERVAL_MS = 5_000

/** `Redis: NOPERM this user …`: the code and the start of the sentence tell kinds apart. */
const KIND_LENGTH = 24

/** More kinds than Redis has error codes in use at once; then all of them start again. */
const KINDS_MAX = 32

/** Returns whether a line may be written now: the first one, and then one in 5 s. */
export function throttle(): () => boolean {
  let lastMs = Number.NEGATIVE_INFINITY
  return () => {
    const nowMs = performance.now()
    if (nowMs - lastMs < INTERVAL_MS) return false
    lastMs = nowMs
    return true
  }
}

/** Like `throttle` for each kind of text, so that a frequent kind does not hide another. */
export function throttleByKind(): (text: string) => boolean {
  const throttles = new Map<string, () => boolean>()
  return (text) => {
    // Texts of one kind differ after the first words, such as in a slot.
    const kind = text.slice(0, KIND_LENGTH)
    if (throttles.size >= KINDS_MAX) throttles.clear()
    const mayWrite = throttles.get(kind) ?? throttle()
    throttles.set(kind, mayWrite)
    return mayWrite()
  }
}
