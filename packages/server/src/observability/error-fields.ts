/** The fields of a line about a defect: the reason, and the place in the code. */

import { maskSecrets } from '../config/mask-secrets.ts'

/** A stack has ten frames of about 100 characters. */
const STACK_LENGTH_MAX = 2_000

export function errorFields(error: unknown): { readonly reason: string; readonly stack: string } {
  if (!(error instanceof Error)) return { reason: maskSecrets(String(error)), stack: '' }
  const stack = maskSecrets(error.stack ?? '').slice(0, STACK_LENGTH_MAX)
  return { reason: maskSecrets(error.message), stack }
}
