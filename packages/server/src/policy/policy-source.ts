/**
 * A policy that follows its file. A valid change is told within a second; an invalid one is told
 * with its problems, and the policy before stays. A file that is being written is left alone until
 * it has stayed the same for a moment, because half a policy can be a valid one.
 *
 * Folders are watched and not files, so that editors which replace a file, and the symbolic links
 * that Kubernetes swaps, are noticed. Where a file system tells nothing, looking at it from time to
 * time does.
 */

import { type FSWatcher, watch } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { type Clock, systemClock } from 'tidegate'
import { type LoadResult, loadPolicy, type OtherFiles, type PolicyFiles } from './load-policy.ts'
import type { PolicyProblem } from './policy-problem.ts'
import { readAside } from './policy-readers.ts'

export interface PolicyVersion {
  /** Such as `3-9f86d081884c`: which one it is since the start, and the start of its hash. */
  readonly id: string
  readonly sequence: number
  /** When it was loaded, in milliseconds since 1970. */
  readonly loadedAtMs: number
}

export interface LivePolicyFiles extends PolicyFiles {
  readonly version: PolicyVersion
}

export interface PolicySourceOptions {
  /** A new policy, valid and different from the one before. */
  onPolicy(policy: LivePolicyFiles): void
  /** The file has changed and is not valid; told once for each content. */
  onRefused(problems: readonly PolicyProblem[]): void
  readonly otherFiles?: OtherFiles
  readonly clock?: Clock
}

export interface PolicySource {
  /** The one that is live. */
  readonly current: LivePolicyFiles
  /** Looks at the files at once, and resolves when what they say was told. */
  reload(): Promise<void>
  close(): void
}

export type OpenedPolicy =
  | { readonly ok: true; readonly source: PolicySource }
  | { readonly ok: false; readonly problems: readonly PolicyProblem[] }

/** Several changes in a row, as editors make them, are one. */
const QUIET_MS = 60

/** As long as a file has to stay the same: whoever writes it does not pause for longer. */
const SETTLED_MS = 120

/** With both of the above still within a second. */
const POLL_MS = 600

/** A file that never stays the same is looked at again with the next change. */
const ATTEMPTS_MAX = 20

const HASH_LENGTH = 12

export async function openPolicy(
  file: string,
  options: PolicySourceOptions,
): Promise<OpenedPolicy> {
  // From before it was read, so that a change in the meantime is one.
  const signature = await signatureOf([file])
  const loaded = await loadPolicy(file, options.otherFiles)
  if (!loaded.ok) return { ok: false, problems: loaded.problems }
  const others = await signatureOf(loaded.files.slice(1))
  const source = new FileSource(resolve(file), loaded, options, joined(signature, others))
  return { ok: true, source }
}

class FileSource implements PolicySource {
  readonly #file: string
  readonly #options: PolicySourceOptions
  readonly #clock: Clock
  readonly #watchers = new Map<string, FSWatcher | undefined>()
  readonly #poll: NodeJS.Timeout
  #current: LivePolicyFiles
  /** Of what was told last, whether it was accepted or refused. */
  #toldHash: string
  #files: readonly string[]
  #signature: string
  /** A file of ours was named among what has changed; with the same length, nothing else tells. */
  #mustRead = false
  #quiet: NodeJS.Timeout | undefined
  #checking: Promise<void> | undefined
  #isClosed = false

  constructor(file: string, loaded: PolicyFiles, options: PolicySourceOptions, signature: string) {
    this.#file = file
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#current = this.#versioned(loaded, 1)
    this.#toldHash = loaded.hash
    this.#files = loaded.files
    this.#signature = signature
    this.#watchFolders()
    this.#poll = setInterval(() => void this.#lookAround(), POLL_MS)
    this.#poll.unref()
  }

  get current(): LivePolicyFiles {
    return this.#current
  }

  reload(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    return this.#checking
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#poll)
    clearTimeout(this.#quiet)
    for (const watcher of this.#watchers.values()) watcher?.close()
    this.#watchers.clear()
  }

  /** Something in one of the folders has changed, which may be a file that is none of ours. */
  #soon(): void {
    if (this.#isClosed) return
    clearTimeout(this.#quiet)
    this.#quiet = setTimeout(() => void this.#lookAround(), QUIET_MS)
    this.#quiet.unref()
  }

  async #lookAround(): Promise<void> {
    this.#watchFolders()
    const mustRead = this.#mustRead
    this.#mustRead = false
    if (mustRead || (await signatureOf(this.#files)) !== this.#signature) await this.reload()
  }

  /** Reads the files once they stay the same, and tells what is new about them. */
  async #check(): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX && !this.#isClosed; attempt++) {
      const before = await signatureOf(this.#files)
      const settled = pause(SETTLED_MS)
      const loaded = await loadPolicy(this.#file, this.#options.otherFiles, readAside)
      if (loaded.hash === this.#toldHash) {
        this.#signature = before
        return
      }
      await settled
      const isSettled = (await signatureOf(this.#files)) === before
      if (!isSettled || this.#isClosed) continue
      this.#signature = before
      this.#tell(loaded)
      return
    }
  }

  #tell(loaded: LoadResult): void {
    this.#toldHash = loaded.hash
    // A refused file may not say what it refers to; then what was followed still is.
    const files = loaded.ok ? loaded.files : [...this.#current.files, ...loaded.files]
    this.#files = [...new Set(files)]
    // These may be others than before, so they are looked at once more.
    this.#signature = ''
    this.#watchFolders()
    if (!loaded.ok) {
      this.#options.onRefused(loaded.problems)
      return
    }
    // Back to what is live after a mistake is nothing new.
    if (loaded.hash === this.#current.hash) return
    this.#current = this.#versioned(loaded, this.#current.version.sequence + 1)
    this.#options.onPolicy(this.#current)
  }

  #watchFolders(): void {
    if (this.#isClosed) return
    const folders = new Set(this.#files.map((file) => dirname(file)))
    for (const [folder, watcher] of this.#watchers) {
      if (folders.has(folder)) continue
      watcher?.close()
      this.#watchers.delete(folder)
    }
    for (const folder of folders) {
      if (this.#watchers.get(folder) === undefined) this.#watchers.set(folder, this.#watch(folder))
    }
  }

  /** Where watching is not possible, polling has to do. */
  #watch(folder: string): FSWatcher | undefined {
    try {
      const watcher = watch(folder, { persistent: false }, (_event, name) => {
        this.#mustRead ||= name === null || this.#files.includes(join(folder, name))
        this.#soon()
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

  #versioned(loaded: PolicyFiles, sequence: number): LivePolicyFiles {
    const id = `${sequence}-${loaded.hash.slice(0, HASH_LENGTH)}`
    return { ...loaded, version: { id, sequence, loadedAtMs: this.#clock.now() } }
  }
}

/** Another when a file was written, replaced or removed, or when a link now leads elsewhere. */
async function signatureOf(files: readonly string[]): Promise<string> {
  const parts = files.map(async (file) => {
    try {
      const { ino, size, mtimeMs, ctimeMs } = await stat(file)
      return `${ino}:${size}:${mtimeMs}:${ctimeMs}`
    } catch {
      return 'none'
    }
  })
  return joined(...(await Promise.all(parts)))
}

function joined(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ')
}

function pause(durationMs: number): Promise<void> {
  return new Promise((done) => setTimeout(done, durationMs))
}
