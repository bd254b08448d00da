/**
 * Digests of requests and keys. An attacker can choose the input, so they are SHA-256. Node.js has
 * a synchronous function; other runtimes use Web Crypto, which is asynchronous.
 */

import { builtinModule } from '../runtime.ts'
import type { MaybePromise } from '../stores/store.ts'
import { base64Text } from './base64.ts'

type NodeHash = (algorithm: 'sha256', data: Uint8Array | string, encoding: 'base64url') => string

const { hash } = (builtinModule('node:crypto') ?? {}) as { readonly hash?: NodeHash }

/**
 * Bytes up to this length are hashed with the other parts, in one call. A call costs more than the
 * bytes of most bodies.
 */
const INLINE_BYTES_MAX = 4_096

/**
 * The digest of a list of parts, 43 characters. Many bytes are represented by their own digest, so
 * that they are not copied. Lengths and kinds separate the parts, so that different lists have
 * different digests.
 */
export function digestOf(parts: readonly (string | Uint8Array)[]): MaybePromise<string> {
  if (hash === undefined) return webDigestOf(parts)
  let lengths = ''
  let texts = ''
  for (const part of parts) {
    lengths += lengthOf(part)
    texts += textOf(part) ?? hash('sha256', part, 'base64url')
  }
  return hash('sha256', `${lengths};${texts}`, 'base64url')
}

async function webDigestOf(parts: readonly (string | Uint8Array)[]): Promise<string> {
  let lengths = ''
  let texts = ''
  for (const part of parts) {
    lengths += lengthOf(part)
    texts += textOf(part) ?? (await webDigest(part as Uint8Array))
  }
  return webDigest(new TextEncoder().encode(`${lengths};${texts}`))
}

function lengthOf(part: string | Uint8Array): string {
  if (typeof part === 'string') return `${part.length}:`
  return part.length <= INLINE_BYTES_MAX ? `${part.length}b:` : 'b:'
}

/** Undefined for many bytes. */
function textOf(part: string | Uint8Array): string | undefined {
  if (typeof part === 'string') return exactly(part)
  return part.length <= INLINE_BYTES_MAX ? latin1Of(part) : undefined
}

/** A character for each byte. */
function latin1Of(bytes: Uint8Array & { latin1Slice?(): string }): string {
  return bytes.latin1Slice?.() ?? String.fromCharCode(...bytes)
}

/** UTF-8 has one text for all lone surrogates; JSON escapes them. */
function exactly(part: string): string {
  return part.isWellFormed() ? part : JSON.stringify(part)
}

async function webDigest(bytes: Uint8Array): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', bytes.slice())
  const text = base64Text(new Uint8Array(digest))
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}
