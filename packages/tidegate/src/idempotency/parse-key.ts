/**
 * Reads the field `Idempotency-Key`: a Structured Field String in quotes, as the draft has it, or
 * the bare text that most clients send. Both spellings of a key are the same key.
 * https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
 */

/** The limit that Stripe documents. A UUID has 36 characters. */
export const KEY_LENGTH_MAX = 255

/** Visible ASCII without quotes, and without characters that separate values of a list. */
const bare = /^[!#$%&()*+./0-9:<=>?@A-Z[\]^_a-z{|}~-]{1,255}$/

/** https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3 */
const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,510})"$/

/** The key; undefined if the field is not valid. Several fields, joined by commas, are not. */
export function parseKey(field: string): string | undefined {
  if (bare.test(field)) return field
  const [, escaped] = quoted.exec(field) ?? []
  const key = escaped?.replaceAll(/\\(["\\])/g, '$1')
  return key === undefined || key.length > KEY_LENGTH_MAX ? undefined : key
}
