/** Bytes as text, because not every Redis client takes and returns bytes. */

import { builtinModule } from '../runtime.ts'

interface NodeBuffer {
  from(
    data: ArrayBufferLike,
    offset: number,
    length: number,
  ): { toString(encoding: string): string }
  from(text: string, encoding: string): Uint8Array
}

const { Buffer: buffers } = (builtinModule('node:buffer') ?? {}) as {
  readonly Buffer?: NodeBuffer
}

/** Characters that `String.fromCharCode` takes at a time: more arguments overflow the stack. */
const PIECE_LENGTH = 8_192

export function base64Text(bytes: Uint8Array): string {
  if (buffers !== undefined) {
    return buffers.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
  }
  let text = ''
  for (let at = 0; at < bytes.length; at += PIECE_LENGTH) {
    text += String.fromCharCode(...bytes.subarray(at, at + PIECE_LENGTH))
  }
  return btoa(text)
}

export function base64Bytes(text: string): Uint8Array<ArrayBuffer> {
  if (buffers !== undefined) return new Uint8Array(buffers.from(text, 'base64'))
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}
