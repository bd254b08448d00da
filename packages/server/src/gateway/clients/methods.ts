/**
 * The methods that requests can have, in both protocols. They are case-sensitive: `post` is not
 * `POST` for a rule, but some servers fold the case, so other spellings are refused.
 * https://www.rfc-editor.org/rfc/rfc9110#section-9.1
 */

import { METHODS } from 'node:http'

const methods: ReadonlySet<string> = new Set(METHODS)

export function isMethod(text: string): boolean {
  return methods.has(text)
}
