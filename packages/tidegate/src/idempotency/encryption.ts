/**
 * Encryption of stored results with AES-256-GCM. The name of the record is authenticated with the
 * result, so that a result cannot be moved to another key. The first key encrypts, all of them
 * decrypt: to rotate, put a new key in front and remove the old one when its records have expired.
 */

import { invalid } from '../errors.ts'
import { base64Bytes, base64Text } from './base64.ts'
import { digestOf } from './digest.ts'

export interface Encryption {
  encrypt(text: string, record: string): Promise<string>
  /** Rejects if no key fits, or if the text was changed. */
  decrypt(text: string, record: string): Promise<string>
}

const KEY_BYTES = 32
const KEYS_MAX = 8
const KEY_ID_LENGTH = 8
const IV_BYTES = 12

type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

interface Key {
  readonly id: string
  readonly key: ImportedKey
}

export function encryptionWith(given: unknown, path: string): Encryption {
  const texts = Array.isArray(given) ? given : [given]
  if (texts.length === 0 || texts.length > KEYS_MAX || !texts.every(isKey)) {
    const allowed = `1 to ${KEYS_MAX} keys of 32 bytes in base64`
    // The value would reveal a key.
    throw invalid('invalid-option', { path, value: 'a key', allowed })
  }
  let imported: Promise<readonly Key[]> | undefined
  const keys = () => {
    imported ??= Promise.all(texts.map(importKey))
    return imported
  }
  return {
    async encrypt(text, record) {
      const [first] = await keys()
      if (first === undefined) throw new Error('no key')
      const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES))
      const bytes = new TextEncoder().encode(text)
      const sealed = await crypto.subtle.encrypt(parameters(iv, record), first.key, bytes)
      return first.id + base64Text(joined(iv, new Uint8Array(sealed)))
    },
    async decrypt(text, record) {
      const found = (await keys()).find(({ id }) => text.startsWith(id))
      if (found === undefined) throw new Error('the result was encrypted with another key')
      const bytes = base64Bytes(text.slice(KEY_ID_LENGTH))
      const iv = bytes.subarray(0, IV_BYTES)
      const sealed = bytes.subarray(IV_BYTES)
      const opened = await crypto.subtle.decrypt(parameters(iv, record), found.key, sealed)
      return new TextDecoder('utf-8', { ignoreBOM: true }).decode(opened)
    },
  }
}

function isKey(text: unknown): text is string {
  if (typeof text !== 'string' || !/^[A-Za-z0-9+/]{43}=$/.test(text)) return false
  return base64Bytes(text).length === KEY_BYTES
}

async function importKey(text: string): Promise<Key> {
  const key = await crypto.subtle.importKey('raw', base64Bytes(text), 'AES-GCM', false, [
    'encrypt',
    'decrypt',
  ])
  const digest = await digestOf(['tidegate idempotency key', text])
  return { id: digest.slice(0, KEY_ID_LENGTH), key }
}

function parameters(iv: Uint8Array<ArrayBuffer>, record: string) {
  return { name: 'AES-GCM', iv, additionalData: new TextEncoder().encode(record) }
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const both = new Uint8Array(one.length + other.length)
  both.set(one)
  both.set(other, one.length)
  return both
}
