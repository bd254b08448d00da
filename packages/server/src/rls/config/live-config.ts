/**
 * The configuration in force: follows its directory, and keeps the last one that was right. The
 * file system tells of changes at once where it can; because it does not everywhere (mounts, links
 * that are swapped above the directory), the directory is also looked at again and again.
 */

import { type FSWatcher, watch } from 'node:fs'
import { type DirectoryOptions, fingerprintOf, readConfigFiles } from './config-directory.ts'
import { decodeFile, type FileFields } from './decode-file.ts'
import { decodeInThread } from './decode-thread.ts'
import { type ConfigFile, type ConfigOptions, loadConfig, type RlsConfig } from './rls-config.ts'

export interface LiveConfigOptions extends ConfigOptions, Partial<DirectoryOptions> {}

export interface LiveConfigEvents {
  onLoaded(config: RlsConfig): void
  /** The configuration before it stays. */
  onError(error: Error): void
}

/** A look takes some microseconds a file. */
const LOOK_MS = 1_000

/** Those who write several files, or one in several steps, are done by then. */
const SETTLE_MS = 50

interface DecodedFile {
  readonly text: string
  readonly fields: FileFields
}

export class LiveConfig {
  /** Undefined until one was right. */
  current: RlsConfig | undefined
  readonly #directory: string
  readonly #options: ConfigOptions & DirectoryOptions
  readonly #events: LiveConfigEvents
  readonly #timer: NodeJS.Timeout
  #settling: NodeJS.Timeout | undefined
  #watcher: FSWatcher | undefined
  #fingerprint = ''
  /** Files that did not change are not parsed again. */
  #decoded = new Map<string, DecodedFile>()
  #isReading = false
  #isClosed = false

  constructor(directory: string, options: LiveConfigOptions, events: LiveConfigEvents) {
    this.#directory = directory
    this.#options = { ignoresDotFiles: false, ...options }
    this.#events = events
    this.#look()
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    clearTimeout(this.#settling)
    this.#unwatch()
  }

  #look(): void {
    this.#watch()
    const fingerprint = fingerprintOf(this.#directory, this.#options)
    if (fingerprint === this.#fingerprint || this.#isReading) return
    // Another directory may have come under the same name.
    this.#unwatch()
    this.#watch()
    try {
      const files = readConfigFiles(this.#directory, this.#options)
      // Something changed meanwhile: the next look has it whole.
      if (fingerprintOf(this.#directory, this.#options) !== fingerprint) {
        this.#soon()
        return
      }
      this.#fingerprint = fingerprint
      this.#take(files)
    } catch (error) {
      this.#fingerprint = fingerprint
      this.#refuse(error)
    }
  }

  /** The first configuration is waited for; later ones are parsed beside the calls. */
  #take(files: readonly ConfigFile[]): void {
    const changed = files.filter(({ name, text }) => this.#decoded.get(name)?.text !== text)
    if (this.current === undefined) {
      this.#load(
        files,
        changed.map(({ name, text }) => decodeFile(name, text)),
      )
      return
    }
    this.#isReading = true
    decodeInThread(changed)
      .then((decoded) => this.#load(files, decoded))
      .catch((error: unknown) => this.#refuse(error))
      .finally(() => {
        this.#isReading = false
        this.#soon()
      })
  }

  #load(files: readonly ConfigFile[], decoded: readonly FileFields[]): void {
    if (this.#isClosed) return
    const fresh = new Map(decoded.map((fields) => [fields.file, fields]))
    const all = new Map<string, DecodedFile>()
    for (const { name, text } of files) {
      const fields = fresh.get(name) ?? this.#decoded.get(name)?.fields
      if (fields !== undefined) all.set(name, { text, fields })
    }
    this.#decoded = all
    const loaded = loadConfig(
      Array.from(all.values(), ({ fields }) => fields),
      this.#options,
    )
    this.current = loaded
    this.#events.onLoaded(loaded)
  }

  #refuse(error: unknown): void {
    if (this.#isClosed) return
    this.#events.onError(error instanceof Error ? error : new Error(String(error)))
  }

  #watch(): void {
    if (this.#watcher !== undefined) return
    try {
      this.#watcher = watch(this.#directory, { persistent: false }, () => this.#soon())
      this.#watcher.on('error', () => this.#unwatch())
    } catch {
      // It is not there, or the system has no more watches: then the looks have to do.
    }
  }

  #unwatch(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }

  #soon(): void {
    if (this.#settling !== undefined || this.#isClosed) return
    this.#settling = setTimeout(() => {
      this.#settling = undefined
      this.#look()
    }, SETTLE_MS)
    this.#settling.unref()
  }
}
