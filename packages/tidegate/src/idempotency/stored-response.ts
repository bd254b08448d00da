/**
 * A response as the text that a store keeps: a line of JSON with status and header fields, then the
 * body. A body that is UTF-8 stays text, other bodies are base64. Above a threshold the body is
 * compressed; with a key, everything is encrypted.
 *
 * A response that is not kept has a reason instead of a body, so that its key is still used up.
 */

import type { MaybePromise } from '../stores/store.ts'
import { base64Bytes, base64Text } from './base64.ts'
import { deflate, inflate } from './compress.ts'
import type { Encryption } from './encryption.ts'

export interface KeptResponse {
  readonly status: number
  /** Name, value, name, value; names are in lower case. */
  readonly headers: readonly string[]
  readonly body: Uint8Array
}

/** Why the response of a used key is not kept. */
export type NotKept = 'too-large' | 'streamed' | 'trailers' | 'unreadable'

export interface UnkeptResponse {
  readonly status: number
  readonly notKept: NotKept
}

/** The largest body of a result. A larger one would delay other commands to Redis. */
export const KEPT_BYTES_MAX = 1_024 ** 2

/** Smaller bodies hardly shrink, and compressing takes longer than a command to Redis. */
const COMPRESSED_BYTES_MIN = 4_096

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const encoder = new TextEncoder()

/** The first character: how the body is written. */
const forms = { text: 'u', bytes: 'b', compressed: 'z', encrypted: 'e' } as const

interface Head {
  readonly s: number
  readonly h?: readonly string[]
  readonly n?: NotKept
}

/** Returns the text of a small response without a promise. */
export function writeResponse(
  response: KeptResponse | UnkeptResponse,
  record: string,
  encryption: Encryption | undefined,
): MaybePromise<string> {
  const plain = plainText(response)
  return encryption === undefined ? plain : encrypted(plain, record, encryption)
}

async function encrypted(plain: MaybePromise<string>, record: string, encryption: Encryption) {
  return forms.encrypted + (await encryption.encrypt(await plain, record))
}

/** Never rejects: a result that cannot be read is one that is not kept. */
export async function readResponse(
  text: string,
  record: string,
  encryption: Encryption | undefined,
): Promise<KeptResponse | UnkeptResponse> {
  try {
    if (!text.startsWith(forms.encrypted)) return await fromPlainText(text)
    if (encryption === undefined) return unreadable
    return await fromPlainText(await encryption.decrypt(text.slice(1), record))
  } catch {
    return unreadable
  }
}

const unreadable: UnkeptResponse = { status: 0, notKept: 'unreadable' }

function plainText(response: KeptResponse | UnkeptResponse): MaybePromise<string> {
  if ('notKept' in response) {
    return `${forms.text}${JSON.stringify({ s: response.status, n: response.notKept })}\n`
  }
  const { status, headers, body } = response
  const head = JSON.stringify({ s: status, h: headers } satisfies Head)
  if (body.length < COMPRESSED_BYTES_MIN || headers.includes('content-encoding')) {
    return uncompressed(head, body)
  }
  return compressed(head, body)
}

async function compressed(head: string, body: Uint8Array): Promise<string> {
  const bytes = await deflate(body)
  if (bytes.length >= body.length / 2) return uncompressed(head, body)
  return `${forms.compressed}${head}\n${base64Text(bytes)}`
}

function uncompressed(head: string, body: Uint8Array): string {
  const text = asText(body)
  if (text !== undefined) return `${forms.text}${head}\n${text}`
  return `${forms.bytes}${head}\n${base64Text(body)}`
}

function asText(body: Uint8Array): string | undefined {
  try {
    return decoder.decode(body)
  } catch {
    return undefined
  }
}

async function fromPlainText(text: string): Promise<KeptResponse | UnkeptResponse> {
  const end = text.indexOf('\n')
  const { s: status, h: headers = [], n: notKept } = JSON.parse(text.slice(1, end)) as Head
  if (notKept !== undefined) return { status, notKept }
  return { status, headers, body: await bodyOf(text.slice(0, 1), text.slice(end + 1)) }
}

function bodyOf(form: string, text: string): Uint8Array | Promise<Uint8Array> {
  if (form === forms.text) return encoder.encode(text)
  if (form === forms.bytes) return base64Bytes(text)
  return inflate(base64Bytes(text), KEPT_BYTES_MAX)
}
