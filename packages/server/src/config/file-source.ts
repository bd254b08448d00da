/**
 * A configuration that follows its files: a file with the files that it names, or a directory. A
 * valid change is reported within a second. An invalid one is reported with its problems, and the
 * version before stays. Files that are being written are left alone until they have settled,
 * because half a configuration can be a valid one.
 */

import { isDeepStrictEqual } from 'node:util'
import { type Clock, systemClock } from 'tidegate'
import type {
  ConfigListener,
  ConfigProblem,
  ConfigResult,
  ConfigSource,
  ConfigVersion,
} from './source.ts'
import { signatureOf, WatchedFiles } from './watched-files.ts'

export type LoadedFiles<T> = (
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly ConfigProblem[] }
) & {
  /** Absolute paths of all files and folders that were read. */
  readonly files: readonly string[]
  /** The hash of everything that was read, also of the reasons why a file could not be read. */
  readonly hash: string
  /** The name of the version, if it has one of its own. */
  readonly version?: string
}

export interface FileReader<T> {
  /** The absolute path of the file or directory. */
  readonly path: string
  /**
   * Reads and parses everything. `live` is the last valid value. Without one, nothing is served
   * yet, so it may parse in this thread. Does not reject.
   */
  load(live: T | undefined): Promise<LoadedFiles<T>>
}

/** How long files have to stay the same. Programs do not pause for longer while they write. */
const SETTLED_MS = 120

/** Files that never settle are read again with the next change. */
const ATTEMPTS_MAX = 20

const HASH_LENGTH = 12

export class FileSource<T> implements ConfigSource<T> {
  readonly #reader: FileReader<T>
  readonly #clock: Clock
  #listener: ConfigListener<T> | undefined
  #watched: WatchedFiles | undefined
  #current: ConfigVersion<T> | undefined
  #currentHash: string | undefined
  #currentFiles: readonly string[] = []
  /** The hash of the files that were reported last, valid or not. */
  #reportedHash: string | undefined
  #files: readonly string[]
  #signature = ''
  #checking: Promise<void> | undefined
  #isClosed = false

  constructor(reader: FileReader<T>, clock: Clock = systemClock) {
    this.#reader = reader
    this.#clock = clock
    this.#files = [reader.path]
  }

  get current(): ConfigVersion<T> | undefined {
    return this.#current
  }

  async read(): Promise<ConfigResult<T>> {
    const before = await signatureOf(this.#files)
    const loaded = await this.#reader.load(undefined)
    this.#keep(loaded)
    // Only the first file has a signature from before it was read: others are read once more.
    this.#signature = this.#files.length > 1 ? '' : before
    if (!loaded.ok) return loaded
    return { ok: true, ...this.#makeCurrent(loaded.value, loaded.version) }
  }

  follow(listener: ConfigListener<T>): void {
    this.#listener = listener
    this.#watched = new WatchedFiles(this.#files, () => void this.#checkIfChanged())
  }

  reload(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  close(): void {
    this.#isClosed = true
    this.#watched?.close()
  }

  async #checkIfChanged(): Promise<void> {
    const wasNamed = this.#watched?.takeNamed()
    if (wasNamed || (await signatureOf(this.#files)) !== this.#signature) await this.reload()
  }

  /** Reads the files, waits until they have settled, and reports them if they are new. */
  async #check(): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX && !this.#isClosed; attempt++) {
      const before = await signatureOf(this.#files)
      // Files that are as they were when they were last read have settled: a text from elsewhere
      // is the change.
      const settled = before === this.#signature ? undefined : pause(SETTLED_MS)
      const loaded = await this.#reader.load(this.#current?.value)
      if (loaded.hash === this.#reportedHash) {
        this.#signature = before
        return
      }
      await settled
      const isSettled = (await signatureOf(this.#files)) === before
      if (!isSettled || this.#isClosed) continue
      this.#report(loaded, before)
      return
    }
  }

  /** `signature` is that of the files which were known before they were loaded. */
  #report(loaded: LoadedFiles<T>, signature: string): void {
    const isLive = loaded.ok && loaded.hash === this.#currentHash
    const known = this.#files
    this.#keep(loaded)
    const isSame = isDeepStrictEqual(this.#files, known)
    // Files that were not known have no signature from before they were read: they are read again.
    this.#signature = isSame ? signature : ''
    this.#watched?.use(this.#files)
    if (!loaded.ok) {
      this.#listener?.onRefused(loaded.problems)
      return
    }
    // The live version comes back after a mistake: nothing has changed.
    if (isLive) return
    this.#listener?.onChange(this.#makeCurrent(loaded.value, loaded.version))
  }

  #keep(loaded: LoadedFiles<T>): void {
    this.#reportedHash = loaded.hash
    if (loaded.ok) {
      this.#currentHash = loaded.hash
      this.#currentFiles = loaded.files
    }
    // A file that is refused may not name the others; those of the live version are still watched.
    this.#files = [...new Set([...this.#currentFiles, ...loaded.files])]
  }

  #makeCurrent(value: T, version: string | undefined): ConfigVersion<T> {
    const sequence = (this.#current?.sequence ?? 0) + 1
    const id = `${version ?? sequence}-${this.#currentHash?.slice(0, HASH_LENGTH)}`
    this.#current = { value, id, sequence, loadedAtMs: this.#clock.now() }
    return this.#current
  }
}

function pause(durationMs: number): Promise<void> {
  return new Promise((done) => setTimeout(done, durationMs))
}
