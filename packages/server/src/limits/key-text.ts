/** Reads the parts of a key back from the text under which its counter is kept. */

import type { RequestLimit } from './compile/request-limit.ts'
import type { KeyAlternative } from './key-plan.ts'

export interface ReadableKey {
  /** Such as `apiKey`, or that of a fallback. */
  readonly kind: string
  readonly parts: readonly string[]
}

/** `outer` is the limit that `limit` lies within, itself if it is the outermost. */
export function readableKey(
  limit: RequestLimit,
  outer: RequestLimit | undefined,
  text: string,
): ReadableKey {
  const own = outer === undefined ? text : innerText(text)
  const fallback = /^~(\d+):/.exec(own)?.[1]
  const alternative = limit.key.alternatives[Number(fallback ?? 0)] ?? limit.key.alternatives[0]
  if (alternative === undefined) return { kind: 'everyone', parts: [] }
  return { kind: alternative.label, parts: keyPartsOf(own, alternative) }
}

/** Removes the mark of a fallback and the lengths of parts, which key-plan.ts adds. */
export function keyPartsOf(key: string, { parts }: KeyAlternative): readonly string[] {
  const text = key.replace(/^~\d+:/, '')
  if (parts === 1) return [text]
  const values: string[] = []
  let at = 0
  while (at < text.length) {
    const colonAt = text.indexOf(':', at)
    const length = Number(text.slice(at, colonAt))
    if (colonAt < 0 || !Number.isSafeInteger(length)) return [text]
    values.push(text.slice(colonAt + 1, colonAt + 1 + length))
    at = colonAt + 1 + length
  }
  return values.length === parts ? values : [text]
}

/** Removes the outer key and its length, which compiled-limit.ts adds. */
function innerText(text: string): string {
  const length = Number(/^(\d+):/.exec(text)?.[1] ?? Number.NaN)
  if (!Number.isSafeInteger(length)) return text
  return text.slice(String(length).length + 1 + length + 1)
}
