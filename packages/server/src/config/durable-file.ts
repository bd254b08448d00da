/**
 * Files that survive a crash of the process and of the machine: written beside, flushed, and then
 * renamed. The first line has a checksum, so that a damaged file is noticed. Only the owner may
 * read them, because they hold keys of clients.
 */

import { createHash, randomBytes } from 'node:crypto'
import { open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readBytes, textOf } from './read-file.ts'

export type DurableText =
  | { readonly ok: true; readonly text: string }
  /** `isMissing` is true if there is not a file yet. */
  | { readonly ok: false; readonly reason: string; readonly isMissing: boolean }

const MODE = 0o600

/** The format, and SHA-256 in hexadecimal. */
const HEADER = /^tidegate-state 1 sha256:([0-9a-f]{64})\n/

/** Rejects if the file cannot be written; the file before stays then. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const beside = `${path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await writeFlushed(beside, `tidegate-state 1 sha256:${digestOf(text)}\n${text}`)
    await rename(beside, path)
  } catch (error) {
    await unlink(beside).catch(() => undefined)
    throw error
  }
  await flushFolder(dirname(path))
}

/** Does not reject. */
export async function readDurably(path: string, bytesMax: number): Promise<DurableText> {
  const content = await readBytes(path, bytesMax)
  if (!Buffer.isBuffer(content)) {
    const isMissing = content.reason === 'there is no such file'
    return { ok: false, reason: content.reason, isMissing }
  }
  const text = textOf(content)
  if (typeof text !== 'string') return damaged(text.reason)
  const header = HEADER.exec(text)
  if (header === null) return damaged('does not begin with the line of a state file')
  const body = text.slice(header[0].length)
  return digestOf(body) === header[1] ? { ok: true, text: body } : damaged('has a wrong checksum')
}

function damaged(reason: string): DurableText {
  return { ok: false, reason, isMissing: false }
}

async function writeFlushed(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', MODE)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Makes the rename durable. Not every file system can flush a folder; the file is whole then. */
async function flushFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, 'r')
    await handle.sync().finally(() => handle.close())
  } catch {
    // The file itself is flushed.
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
