/**
 * API keys, looked up by their HMAC. The file has no keys, and secrets are never compared: without
 * the secret of the HMAC, the time of a look-up reveals nothing.
 */

import { createHmac, hash } from 'node:crypto'
import { findKey, type KeyTable, type KnownKey } from '../../policy/api-keys/key-table.ts'

export interface ApiKeys {
  readonly header: string
  readonly isRequired: boolean
  find(key: string): KnownKey | undefined
}

/** Far longer than the keys of any issuer; the time to compute an HMAC grows with the length. */
const KEY_LENGTH_MAX = 512

export function apiKeys(
  table: KeyTable,
  { header, required, secret }: { header: string; required: boolean; secret: string },
): ApiKeys {
  return {
    header,
    isRequired: required,
    find(key) {
      if (key.length > KEY_LENGTH_MAX) return undefined
      return findKey(table, createHmac('sha256', secret).update(key).digest())
    },
  }
}

/** Distinguishes callers if no keys are configured. It proves nothing and hides the key. */
export function digestOf(key: string): string {
  return hash('sha256', key, 'base64url')
}

export function hmacOf(key: string, secret: string): string {
  return createHmac('sha256', secret).update(key).digest('hex')
}
