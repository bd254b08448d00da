/** Values of a configuration as messages show them. */

import { maskSecrets } from './mask-secrets.ts'

/** Enough to recognise a value in a line of a log. */
const SHOWN_LENGTH_MAX = 80

/** Far more than is shown, so that masking, which shortens, brings no other part into view. */
const MASKED_LENGTH_MAX = 1_000

/** One bounded line without control characters, whatever the value is. */
export function show(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'a mapping'
  }
  const text = typeof value === 'string' ? quoted(value) : String(value)
  const shown = text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text
  return shown.replace(/[\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e]/g, '?')
}

/** Masked before it is cut, because half a secret has no shape. */
function quoted(value: string): string {
  return JSON.stringify(maskSecrets(value.slice(0, MASKED_LENGTH_MAX)))
}
