/**
 * A configuration whose document is published in a key-value store, on top of local files. Without
 * a published version, the local files are the configuration. A document that is not valid is
 * refused, and the version before stays.
 *
 * It starts with the published version if the store answers quickly, then with the last good one
 * of the state file, then with the local files alone, whichever is valid.
 */

import { FileSource, type LoadedFiles } from '../../config/file-source.ts'
import type {
  ConfigListener,
  ConfigProblem,
  ConfigResult,
  ConfigSource,
  ConfigVersion,
} from '../../config/source.ts'
import type { KeyValueStore } from '../key-value.ts'
import type { NodePlace } from '../versions/version-record.ts'
import { DocumentFollower, type RemoteDocument } from './document-follower.ts'
import { StateFile } from './state-file.ts'

export interface ControlSourceOptions<T> {
  readonly store: KeyValueStore
  readonly place: NodePlace
  /** The absolute path of the local file. */
  readonly path: string
  /** Loads the local files, with the document in place of some of their sections. */
  load(document: RemoteDocument | undefined, live: T | undefined): Promise<LoadedFiles<T>>
  /** Resolves when a document can be loaded. The store has this time to answer, too. */
  readonly canLoad?: Promise<unknown> | undefined
  /** Where the last good document is kept. */
  readonly stateFile?: string | undefined
  readonly events?: ControlSourceEvents
}

export interface ControlSourceEvents {
  onContact?(isReachable: boolean, problem?: string): void
  /** Something to know that is not a problem of a document. */
  onNote?(text: string): void
}

/** What this node has, for its report. */
export interface SourceStatus {
  /** The version that was published; 0 if none is known. */
  readonly published: number
  /** The version of the live configuration; 0 for local files alone. */
  readonly live: number
  readonly hash: string
  readonly isReachable: boolean
  readonly revision: bigint
  readonly problems: readonly string[]
}

/**
 * A store that answers does so within milliseconds, and a start must not take a second. A store
 * that refuses ends the wait.
 */
const FIRST_DOCUMENT_MS = 200

/** Without a last good version, a node would serve with the limits of its local file instead. */
const FIRST_DOCUMENT_EVER_MS = 3_000

export class ControlSource<T> implements ConfigSource<T> {
  readonly #options: ControlSourceOptions<T>
  readonly #files: FileSource<T>
  readonly #state: StateFile | undefined
  readonly #first = Promise.withResolvers<void>()
  #follower: DocumentFollower | undefined
  #listener: ConfigListener<T> | undefined
  /** What is published; `isKnown` is false until the store has answered. */
  #published: RemoteDocument | undefined
  #isKnown = false
  /** The document that the next load uses, and the one that the last load used. */
  #wanted: RemoteDocument | undefined
  #loaded: RemoteDocument | undefined
  #live: RemoteDocument | undefined
  #poisoned: number | undefined
  #problems: readonly string[] = []
  #isReachable = false
  #isClosed = false
  #applying: Promise<void> | undefined

  constructor(options: ControlSourceOptions<T>) {
    this.#options = options
    const { path, stateFile } = options
    this.#files = new FileSource({ path, load: (live) => this.#load(live) })
    this.#state =
      stateFile === undefined ? undefined : new StateFile(stateFile, (text) => this.#note(text))
  }

  get current(): ConfigVersion<T> | undefined {
    return this.#files.current
  }

  status(): SourceStatus {
    return {
      published: this.#published?.version ?? 0,
      live: this.#live?.version ?? 0,
      hash: this.#live?.hash ?? '',
      isReachable: this.#isReachable,
      revision: this.#follower?.revision ?? 0n,
      problems: this.#problems,
    }
  }

  async read(): Promise<ConfigResult<T>> {
    const { lastGood, applying } = (await this.#state?.read()) ?? {}
    this.#poisoned = applying
    this.#startFollowing()
    const waitMs = lastGood === undefined ? FIRST_DOCUMENT_EVER_MS : FIRST_DOCUMENT_MS
    const waited = Promise.all([pause(waitMs), this.#options.canLoad])
    await Promise.race([this.#first.promise, waited])
    const candidates: (RemoteDocument | undefined)[] = []
    if (this.#isKnown && this.#isUsable(this.#published)) candidates.push(this.#published)
    // Without an answer, what was live last is better than what is in the local file.
    if (!this.#isKnown || this.#published !== undefined) candidates.push(lastGood)
    candidates.push(undefined)
    let result: ConfigResult<T> | undefined
    for (const candidate of new Set(candidates)) {
      result = await this.#readWith(candidate)
      if (result.ok) return result
    }
    return result ?? this.#readWith(undefined)
  }

  follow(listener: ConfigListener<T>): void {
    this.#listener = listener
    this.#files.follow({
      onChange: (version) => {
        const loaded = this.#loaded
        const problems = listener.onChange(version) ?? []
        this.#problems = problems.map(({ message }) => message)
        if (problems.length === 0) this.#live = loaded
        return problems
      },
      onRefused: (problems) => this.#refuse(problems),
    })
    if (this.#isKnown) this.#apply()
  }

  async reload(): Promise<void> {
    await this.#applying
    await this.#files.reload()
  }

  close(): void {
    this.#isClosed = true
    this.#follower?.close()
    this.#files.close()
    void this.#state?.settle()
  }

  /** Waits until the state file has the live version. */
  async settle(): Promise<void> {
    await this.#state?.settle()
  }

  #startFollowing(): void {
    const { store, place, events } = this.#options
    this.#follower = new DocumentFollower(store, place, {
      onDocument: (document) => {
        this.#published = document
        this.#isKnown = true
        this.#first.resolve()
        if (this.#listener !== undefined) this.#apply()
      },
      onProblem: (problem) => {
        this.#first.resolve()
        if (!this.#problems.includes(problem)) this.#refuse([{ message: problem }])
      },
      onContact: (isReachable, problem) => {
        this.#isReachable = isReachable
        if (!isReachable) this.#first.resolve()
        events?.onContact?.(isReachable, problem)
      },
    })
  }

  async #readWith(document: RemoteDocument | undefined): Promise<ConfigResult<T>> {
    const isNew = document !== undefined && document === this.#published
    if (isNew) await this.#state?.begin(document)
    this.#wanted = document
    const result = await this.#files.read()
    if (isNew && !result.ok) await this.#state?.cancel()
    if (result.ok) {
      this.#live = document
      this.#problems = []
    } else this.#problems = result.problems.map(({ message }) => message)
    return result
  }

  async #load(live: T | undefined): Promise<LoadedFiles<T>> {
    const document = this.#wanted
    const loaded = await this.#options.load(document, live)
    this.#loaded = document
    if (document === undefined) return loaded
    // Another version is a change, also if its text is the same.
    const hash = `${loaded.hash}-${document.version}`
    return { ...loaded, hash, version: `v${document.version}` }
  }

  /** One version at a time. The published one may change meanwhile. */
  #apply(): void {
    this.#applying ??= this.#applyPublished().finally(() => {
      this.#applying = undefined
    })
  }

  async #applyPublished(): Promise<void> {
    while (this.#wanted !== this.#published && !this.#isClosed) {
      const document = this.#published
      if (!this.#isUsable(document)) return
      if (document !== undefined) await this.#state?.begin(document)
      this.#wanted = document
      // A reload that is under way may have read the document before.
      do await this.#files.reload()
      while (this.#loaded !== document && !this.#isClosed)
      if (this.#isClosed) return
      // What was live before a refused version is live again, without another report.
      if (this.#live?.version === document?.version) this.#problems = []
      if (this.#live !== document) await this.#state?.cancel()
    }
  }

  /** False, and reported, if the process before ended soon after it had applied this version. */
  #isUsable(document: RemoteDocument | undefined): boolean {
    if (document === undefined || document.version !== this.#poisoned) return true
    const text =
      `version ${document.version} is not applied: the process before ended soon after it was; ` +
      'publish another version'
    if (!this.#problems.includes(text)) this.#refuse([{ message: text }])
    return false
  }

  #refuse(problems: readonly ConfigProblem[]): void {
    this.#problems = problems.map(({ message }) => message)
    if (this.#listener === undefined) for (const text of this.#problems) this.#note(text)
    else this.#listener.onRefused(problems)
  }

  #note(text: string): void {
    this.#options.events?.onNote?.(text)
  }
}

function pause(durationMs: number): Promise<void> {
  return new Promise((done) => void setTimeout(done, durationMs))
}
