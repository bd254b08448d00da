/**
 * API keys, looked up by their HMAC. The file has no keys and no two secrets are ever compared:
 * who cannot compute the HMAC of a key cannot learn anything from how long a look-up takes.
 */

import { createHmac, hash } from 'node:crypto'
import { parse } from 'yaml'
import { z } from 'zod'

export interface ApiKeys {
  readonly header: string
  readonly isRequired: boolean
  find(key: string): KnownKey | undefined
}

export type KnownKey = z.output<typeof knownKey>

/** A million keys; a larger file is another one. */
const FILE_BYTES_MAX = 256 * 1_024 ** 2

/** https://www.rfc-editor.org/rfc/rfc9110#section-5.4 leaves it open; nobody has longer keys. */
const KEY_LENGTH_MAX = 512

const shortText = z.string().min(1).max(128)

const knownKey = z.strictObject({
  hmac: z.string().regex(/^[0-9a-f]{64}$/i, { error: 'an HMAC-SHA256 in hexadecimal' }),
  id: shortText,
  organisation: shortText.optional(),
  tier: shortText.optional(),
})

export function apiKeys(
  text: string,
  { header, required, secret }: { header: string; required: boolean; secret: string },
): ApiKeys {
  const known = new Map(parseKeys(text).map((key) => [key.hmac.toLowerCase(), key]))
  return {
    header,
    isRequired: required,
    find: (key) => (key.length > KEY_LENGTH_MAX ? undefined : known.get(hmacOf(key, secret))),
  }
}

/** What tells callers apart where no keys are known: it proves nothing, and is no key. */
export function digestOf(key: string): string {
  return hash('sha256', key, 'base64url')
}

export function hmacOf(key: string, secret: string): string {
  return createHmac('sha256', secret).update(key).digest('hex')
}

function parseKeys(text: string): KnownKey[] {
  if (text.length > FILE_BYTES_MAX) throw new Error(`auth.apiKeys.file: too large`)
  const parsed = z.array(knownKey).safeParse(parse(text, { maxAliasCount: 0 }) ?? [])
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const place = issue?.path.map((part) => `[${String(part)}]`).join('') ?? ''
  throw new Error(`auth.apiKeys.file: ${place}: ${issue?.message}`)
}
