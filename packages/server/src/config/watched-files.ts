/**
 * Notices changes of a set of files. It watches folders and not files, so that it sees editors that
 * replace a file and the symbolic links that Kubernetes swaps. Because not every file system
 * reports changes, it also calls back at a fixed interval.
 */

import { type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Several changes in a row, as editors make them, are one. */
const QUIET_MS = 60

/** Together with the time that a file has to settle, a change is noticed within a second. */
const POLL_MS = 600

export class WatchedFiles {
  readonly #onEvent: () => void
  readonly #watchers = new Map<string, FSWatcher | undefined>()
  readonly #poll: NodeJS.Timeout
  #files: readonly string[] = []
  #quiet: NodeJS.Timeout | undefined
  #wasNamed = false
  #isClosed = false

  /** `onEvent` is called after events in one of the folders, and at the polling interval. */
  constructor(files: readonly string[], onEvent: () => void) {
    this.#onEvent = onEvent
    this.use(files)
    this.#poll = setInterval(() => this.#report(), POLL_MS)
    this.#poll.unref()
  }

  /** Replaces the files. All folders are opened again: another one may have taken a name. */
  use(files: readonly string[]): void {
    this.#files = files
    for (const watcher of this.#watchers.values()) watcher?.close()
    this.#watchers.clear()
    this.#watchFolders()
  }

  /** Returns whether an event has named one of the files since the last call. */
  takeNamed(): boolean {
    const wasNamed = this.#wasNamed
    this.#wasNamed = false
    return wasNamed
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#poll)
    clearTimeout(this.#quiet)
    for (const watcher of this.#watchers.values()) watcher?.close()
    this.#watchers.clear()
  }

  #report(): void {
    this.#watchFolders()
    this.#onEvent()
  }

  #reportSoon(): void {
    if (this.#isClosed) return
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => this.#report(), QUIET_MS)
    this.#quiet.unref()
  }

  /** Also tries again to watch folders that could not be watched before. */
  #watchFolders(): void {
    if (this.#isClosed) return
    for (const folder of new Set(this.#files.map((file) => dirname(file)))) {
      if (this.#watchers.get(folder) === undefined) this.#watchers.set(folder, this.#watch(folder))
    }
  }

  /** Returns undefined if the folder cannot be watched; then only polling notices changes. */
  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        this.#wasNamed ||= name === null || this.#files.includes(join(folder, name))
        this.#reportSoon()
      })
      watcher.on('error', () => {
        watcher.close()
        this.#watchers.delete(folder)
      })
      return watcher
    } catch {
      return undefined
    }
  }
}

/**
 * A text that changes when a file is written, replaced or removed, when a link leads to another
 * file, or when an entry is added to or removed from a folder.
 */
export async function signatureOf(files: readonly string[]): Promise<string> {
  const parts = files.map(async (file) => {
    try {
      const { ino, size, mtimeMs, ctimeMs } = await stat(file)
      return `${ino}:${size}:${mtimeMs}:${ctimeMs}`
    } catch {
      return 'none'
    }
  })
  return (await Promise.all(parts)).join(' ')
}
