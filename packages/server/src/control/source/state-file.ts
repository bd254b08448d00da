/**
 * The last good policy of a node on its disk, so that the node starts without etcd. The version
 * that is being applied is noted first: a process that starts and finds such a note knows that the
 * process before it ended soon after, and does not apply that version again.
 */

import { readDurably, writeDurably } from '../../config/durable-file.ts'
import type { RemoteDocument } from './document-follower.ts'

export interface NodeState {
  /** The last policy that was live for a while without trouble. */
  readonly lastGood: RemoteDocument | undefined
  /** The version that was being applied when the process ended. */
  readonly applying: number | undefined
}

/** A policy of 256 KB, with the escapes of JSON. */
const FILE_BYTES_MAX = 4 * 1024 ** 2

/** Trouble with a policy, such as a crash at its first requests, shows within this time. */
const GOOD_AFTER_MS = 30_000

export class StateFile {
  readonly #path: string
  readonly #onProblem: (problem: string) => void
  #lastGood: RemoteDocument | undefined
  #applying: RemoteDocument | undefined
  /** The version that was being applied when `#applying` began; it is live if that is refused. */
  #before: RemoteDocument | undefined
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> = Promise.resolve()

  constructor(path: string, onProblem: (problem: string) => void) {
    this.#path = path
    this.#onProblem = onProblem
  }

  /** Does not reject: a missing or damaged file is like none. */
  async read(): Promise<NodeState> {
    const read = await readDurably(this.#path, FILE_BYTES_MAX)
    if (!read.ok) {
      if (!read.isMissing) this.#onProblem(`${this.#path} ${read.reason}; it is not used`)
      return { lastGood: undefined, applying: undefined }
    }
    const state = JSON.parse(read.text) as Partial<NodeState>
    this.#lastGood = state.lastGood
    return { lastGood: state.lastGood, applying: state.applying }
  }

  /** Notes that a version goes live. It is the last good one after a while. */
  async begin(document: RemoteDocument): Promise<void> {
    this.#before = this.#applying
    this.#applying = document
    await this.#saveApplying()
  }

  /** The version did not go live: it was refused, and the one before stays. */
  async cancel(): Promise<void> {
    if (this.#applying === undefined) return
    this.#applying = this.#before
    this.#before = undefined
    await this.#saveApplying()
  }

  /** The version is good: enough time has passed, or the process ends in order. */
  async settle(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#applying === undefined) return this.#writing
    this.#lastGood = this.#applying
    this.#applying = undefined
    this.#before = undefined
    await this.#save()
  }

  async #saveApplying(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#save()
    if (this.#applying === undefined) return
    this.#timer = setTimeout(() => void this.settle(), GOOD_AFTER_MS)
    this.#timer.unref()
  }

  /** A file that cannot be written does not keep a policy from going live. */
  #save(): Promise<void> {
    const state = { lastGood: this.#lastGood, applying: this.#applying?.version }
    const text = JSON.stringify(state)
    this.#writing = this.#writing.then(() =>
      writeDurably(this.#path, text).catch((error: Error) =>
        this.#onProblem(`${this.#path} cannot be written: ${error.message}`),
      ),
    )
    return this.#writing
  }
}
