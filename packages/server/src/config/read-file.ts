/** Reads a file completely, within a bound on its size. Only regular files are read. */

import { isUtf8 } from 'node:buffer'
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

export interface FileProblem {
  readonly reason: string
  /** From 1. */
  readonly line: number
  readonly column: number
}

/** Reads at most `bytesMax` bytes, also if the file grows meanwhile. Does not reject. */
export async function readBytes(path: string, bytesMax: number): Promise<Buffer | FileProblem> {
  try {
    // Opening a FIFO without a writer would block, and with it every later change.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      return await readAll(handle, bytesMax)
    } finally {
      await handle.close()
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'an error'
    return problem(code === 'ENOENT' ? 'there is no such file' : `cannot be read: ${code}`)
  }
}

/** Certificates, keys and lists of them: thousands of certificates fit. */
const SMALL_FILE_BYTES_MAX = 4 * 1_048_576

/** Reads a certificate, a key or a secret in the calling thread. Throws if it is not a file. */
export function readSmallFile(path: string): Buffer {
  // As above, and a device may have no end: both would stop the process.
  const handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = fstatSync(handle)
    if (!stat.isFile()) throw new Error('it is not a file')
    if (stat.size > SMALL_FILE_BYTES_MAX) {
      throw new Error(`it is too large; allowed: ${SMALL_FILE_BYTES_MAX} bytes`)
    }
    return readFileSync(handle)
  } finally {
    closeSync(handle)
  }
}

async function readAll(handle: FileHandle, bytesMax: number): Promise<Buffer | FileProblem> {
  const stat = await handle.stat()
  if (!stat.isFile()) return problem('is not a file')
  const buffer = Buffer.alloc(Math.min(stat.size, bytesMax) + 1)
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  if (length > bytesMax) return problem(`is too large; allowed: ${bytesMax} bytes`)
  return buffer.subarray(0, length)
}

/** Returns the text, or the place of the first bytes that are not UTF-8. */
export function textOf(content: Buffer): string | FileProblem {
  if (isUtf8(content)) return content.toString('utf8')
  let lineAt = 0
  for (let line = 1; ; line++) {
    const newlineAt = content.indexOf(0x0a, lineAt)
    const bytes = content.subarray(lineAt, newlineAt === -1 ? content.length : newlineAt)
    if (!isUtf8(bytes) || newlineAt === -1) {
      const column = bytes.toString('utf8').indexOf('\ufffd') + 1
      return { reason: 'is not UTF-8 here', line, column: Math.max(column, 1) }
    }
    lineAt = newlineAt + 1
  }
}

function problem(reason: string): FileProblem {
  return { reason, line: 1, column: 1 }
}
