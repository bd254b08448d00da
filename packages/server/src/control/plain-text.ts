/** Texts of operators: one bounded line without characters that change how it is shown. */

import { z } from 'zod'

/** Control characters, line separators, and marks that reverse the direction of a text. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

const UNSAFE_ALL = new RegExp(UNSAFE.source, 'gu')

const REASON_LENGTH_MAX = 500

const NAME_LENGTH_MAX = 64

/** A text that terminals, logs and pages can show as it is. */
export function plainText(lengthMax: number) {
  return z
    .string()
    .min(1)
    .max(lengthMax)
    .refine((text) => !UNSAFE.test(text) && text.trim() !== '', {
      error: `1 to ${lengthMax} characters in one line, without control characters`,
    })
}

/** The reason of a change. */
export const reason = plainText(REASON_LENGTH_MAX).describe('Why it is changed, for the audit.')

export const actorName = plainText(NAME_LENGTH_MAX)

/** Replaces unsafe characters but line breaks by their escapes, which JSON has as well. */
export function escapeUnsafe(text: string): string {
  return text.replace(UNSAFE_ALL, (found) => {
    if (found === '\n') return found
    const units = Array.from({ length: found.length }, (_, at) => found.charCodeAt(at))
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
  })
}
