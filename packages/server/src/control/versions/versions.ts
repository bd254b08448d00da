/**
 * Versions of a policy over any key-value store. Publishing is a compare-and-swap of the pointer:
 * of two publishers that began from the same version, one gets a conflict with the difference
 * between its text and the other's. A rollback is a new version with an old text.
 */

import { randomBytes } from 'node:crypto'
import { type AuditWriter, type VersionStep, withoutAudit } from '../audit-writer.ts'
import { ControlError } from '../control-error.ts'
import { entryOf } from '../entry-list.ts'
import type { Condition, Entry, KeyValueStore, TransactionResult, Write } from '../key-value.ts'
import { pauseAfterLostRace } from '../lost-race.ts'
import { lineDiff } from './line-diff.ts'
import {
  CANARY_KEY,
  type CanaryPlace,
  type CanaryPointer,
  CURRENT_KEY,
  type CurrentPointer,
  hashOf,
  readCanary,
  readPointer,
  readVersion,
  VERSIONS_PREFIX,
  type VersionRecord,
  versionKey,
} from './version-record.ts'

export interface ChangeOptions {
  readonly by: string
  readonly why: string
  /** Default: no audit record. */
  readonly audit?: AuditWriter
}

export interface PublishOptions extends ChangeOptions {
  /** The version that the text was made from. Without it, from the one that is live. */
  readonly parent?: number | undefined
  /** The program that publishes, such as `tidegate 1.0.0`. */
  readonly program: string
  readonly rollbackOf?: number
}

export type VersionInfo = Omit<VersionRecord, 'text'> & { readonly isCurrent: boolean }

/** A text of a policy may have 256 KB; JSON escapes take more. */
const TEXT_BYTES_MAX = 256 * 1024
const WHY_LENGTH_MAX = 1_000
const BY_LENGTH_MAX = 200

/** Kept are the versions that either of the two keeps. */
const KEPT_VERSIONS = 200
const KEPT_MS = 90 * 24 * 3_600_000

/** Versions that one publishing deletes, so that it stays a small transaction. */
const FORGOTTEN_AT_ONCE = 5

/** Attempts to write an audit record that others write at the same time. */
const ATTEMPTS_MAX = 200

/** Raised by a lost race: nothing was applied. */
export class VersionConflict extends ControlError {
  /** The version that is live. */
  readonly current: VersionRecord
  /** From the text of the live version to the text that was refused. */
  readonly diff: string

  constructor(current: VersionRecord, text: string) {
    const { version, by, at } = current
    super('conflict', `version ${version} was published by ${by} at ${at}; compare and try again`)
    this.current = current
    this.diff = lineDiff(current.text, text)
  }
}

export class Versions {
  readonly #store: KeyValueStore
  readonly #now: () => number
  #tail: Promise<unknown> = Promise.resolve()

  constructor(store: KeyValueStore, now: () => number = Date.now) {
    this.#store = store
    this.#now = now
  }

  /** Returns the live version; undefined if none was published. */
  async current(): Promise<VersionRecord | undefined> {
    const pointer = await this.#entry(CURRENT_KEY)
    if (pointer === undefined) return undefined
    return this.get(readPointer(pointer.value, CURRENT_KEY).version)
  }

  /** Rejects with `out-of-bounds` if there is no such version, or no longer. */
  async get(version: number): Promise<VersionRecord> {
    const found = await this.find(version)
    if (found !== undefined) return found
    throw new ControlError('out-of-bounds', `there is no version ${version}, or no longer`)
  }

  /** Returns undefined if there is no such version, or no longer. */
  async find(version: number): Promise<VersionRecord | undefined> {
    const key = versionKey(version)
    const entry = await this.#entry(key)
    return entry && readVersion(entry.value, key)
  }

  /** Returns the newest versions first, before version `before` if it is given. */
  async history(entriesMax = KEPT_VERSIONS, before?: number): Promise<readonly VersionInfo[]> {
    const pointer = await this.#entry(CURRENT_KEY)
    const live = pointer && readPointer(pointer.value, CURRENT_KEY).version
    const from = before === undefined ? undefined : { from: versionKey(before - 1) }
    const options = { entriesMax, isDescending: true, ...from }
    const { entries } = await this.#store.range(VERSIONS_PREFIX, options)
    return entries.map(({ key, value }) => {
      const { text: _, ...info } = readVersion(value, key)
      return { ...info, isCurrent: info.version === live }
    })
  }

  async diff(from: number, to: number): Promise<string> {
    const [before, after] = await Promise.all([this.get(from), this.get(to)])
    return lineDiff(before.text, after.text)
  }

  /** Rejects with a VersionConflict if `parent` is not the live version. */
  publish(text: string, options: PublishOptions): Promise<VersionRecord> {
    return this.#inTurn(() => this.#publish(text, options))
  }

  /** Publishes the text of an earlier version again. */
  async rollback(to: number, options: Omit<PublishOptions, 'rollbackOf'>): Promise<VersionRecord> {
    const { text } = await this.get(to)
    return this.publish(text, { ...options, rollbackOf: to })
  }

  /** Undefined without a canary, and after its end. */
  async canary(): Promise<CanaryPointer | undefined> {
    const entry = await this.#entry(CANARY_KEY)
    const canary = entry && readCanary(entry.value, CANARY_KEY)
    return canary !== undefined && Date.parse(canary.until) > this.#now() ? canary : undefined
  }

  /** Gives a version, which is not live yet, to a part of the nodes. Undefined ends the canary. */
  async setCanary(
    canary:
      | { readonly version: number; readonly where: CanaryPlace; readonly until: Date }
      | undefined,
    options: ChangeOptions,
  ): Promise<void> {
    checkReason(options)
    let value: string | undefined
    if (canary !== undefined) {
      const { version, where, until } = canary
      const { hash } = await this.get(version)
      const pointer: CanaryPointer = { version, hash, where, until: until.toISOString() }
      value = JSON.stringify(pointer)
      // What cannot be read back must not be written.
      readCanary(value, CANARY_KEY)
    }
    await this.#inTurn(() => this.#write([], [{ key: CANARY_KEY, value }], options))
  }

  /**
   * Makes the version of the canary the live one, and ends the canary. Rejects with a
   * VersionConflict if another version was published since the canary was made, and with
   * `out-of-bounds` after its end: its nodes have left the version by then.
   */
  promote(options: ChangeOptions): Promise<VersionRecord> {
    checkReason(options)
    return this.#inTurn(async () => {
      const entry = await this.#entry(CANARY_KEY)
      if (entry === undefined) throw new ControlError('out-of-bounds', 'there is no canary')
      const { version, hash, until } = readCanary(entry.value, CANARY_KEY)
      if (Date.parse(until) <= this.#now()) {
        const text = `the canary of version ${version} has ended at ${until}; start another one`
        throw new ControlError('out-of-bounds', text)
      }
      const record = await this.get(version)
      const pointer = await this.#entry(CURRENT_KEY)
      const live = pointer === undefined ? 0 : readPointer(pointer.value, CURRENT_KEY).version
      if (live !== record.parent) throw await this.#conflict(live, record.parent, record.text)
      const conditions = [
        { key: CANARY_KEY, revision: entry.revision },
        { key: CURRENT_KEY, revision: pointer?.revision ?? 0n },
      ]
      const writes = [
        { key: CURRENT_KEY, value: JSON.stringify({ version, hash }) },
        { key: CANARY_KEY, value: undefined },
      ]
      await this.#write(conditions, writes, options, { versionFrom: live, versionTo: version })
      return record
    })
  }

  /** Adds a version for a canary, without making it live. */
  stage(text: string, options: PublishOptions): Promise<VersionRecord> {
    return this.#inTurn(() => this.#publish(text, options, true))
  }

  async #publish(text: string, options: PublishOptions, isStaged = false): Promise<VersionRecord> {
    checkReason(options)
    const bytes = Buffer.byteLength(text)
    if (bytes > TEXT_BYTES_MAX) {
      const allowed = `allowed: ${TEXT_BYTES_MAX}`
      throw new ControlError('out-of-bounds', `a document of ${bytes} bytes; ${allowed}`)
    }
    const id = randomBytes(12).toString('hex')
    for (let attempt = 1; ; attempt++) {
      const record = await this.#next(text, options, id)
      const isDone = await this.#attempt(record, options, isStaged)
      if (isDone) return record
      if (attempt === ATTEMPTS_MAX) {
        throw new ControlError('conflict', `gave up after ${ATTEMPTS_MAX} lost races`)
      }
      await pauseAfterLostRace(attempt)
    }
  }

  /** Makes the record, with the number after the newest one. */
  async #next(text: string, options: PublishOptions, id: string): Promise<VersionRecord> {
    const { by, why, parent, program, rollbackOf } = options
    const pointer = await this.#entry(CURRENT_KEY)
    const live = pointer === undefined ? 0 : readPointer(pointer.value, CURRENT_KEY).version
    if (parent !== undefined && parent !== live) throw await this.#conflict(live, parent, text)
    const newest = await this.#store.range(VERSIONS_PREFIX, { entriesMax: 1, isDescending: true })
    const [entry] = newest.entries
    const last = entry === undefined ? 0 : readVersion(entry.value, entry.key).version
    return {
      version: Math.max(last, live) + 1,
      text,
      hash: hashOf(text),
      by,
      at: new Date(this.#now()).toISOString(),
      why,
      parent: live,
      ...(rollbackOf !== undefined && { rollbackOf }),
      program,
      id,
    }
  }

  async #conflict(live: number, parent: number, text: string): Promise<ControlError> {
    if (live > 0) return new VersionConflict(await this.get(live), text)
    return new ControlError('conflict', `version ${parent} is not live: none is`)
  }

  /** Returns false if another publisher was faster and the next attempt may succeed. */
  async #attempt(
    record: VersionRecord,
    options: PublishOptions,
    isStaged: boolean,
  ): Promise<boolean> {
    const { version, hash, parent } = record
    const pointer = await this.#entry(CURRENT_KEY)
    const live = pointer === undefined ? 0 : readPointer(pointer.value, CURRENT_KEY).version
    if (live !== parent) return false
    const conditions: Condition[] = [
      { key: CURRENT_KEY, revision: pointer?.revision ?? 0n },
      { key: versionKey(version), revision: 0n },
    ]
    const writes: Write[] = [
      { key: versionKey(version), value: JSON.stringify(record) },
      ...(isStaged ? [] : pointTo({ version, hash })),
      ...(await this.#forgotten(version, parent)),
    ]
    try {
      const step = { versionFrom: parent, versionTo: version }
      return (await this.#transact(conditions, writes, options.audit, step)).ok
    } catch (error) {
      // The answer was lost, but not necessarily the change.
      if (await this.#isPublished(record)) return true
      throw error
    }
  }

  async #isPublished({ version, id }: VersionRecord): Promise<boolean> {
    const found = await this.get(version).catch(() => undefined)
    return found?.id === id
  }

  /** Deletes of the oldest versions, except those that are live or new enough. */
  async #forgotten(version: number, live: number): Promise<Write[]> {
    if (version <= KEPT_VERSIONS) return []
    const canary = await this.canary().catch(() => undefined)
    const page = { entriesMax: FORGOTTEN_AT_ONCE }
    const { entries } = await this.#store.range(VERSIONS_PREFIX, page)
    return entries.flatMap(({ key, value }) => {
      const record = readVersion(value, key)
      const isUsed = record.version === live || record.version === canary?.version
      const isNew = this.#now() - Date.parse(record.at) < KEPT_MS
      const isKept = isUsed || isNew || record.version > version - KEPT_VERSIONS
      return isKept ? [] : [{ key, value: undefined }]
    })
  }

  /** Repeats a write whose audit record lost a race. */
  async #write(
    conditions: readonly Condition[],
    writes: readonly Write[],
    { audit }: ChangeOptions,
    step?: VersionStep,
  ): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const result = await this.#transact(conditions, writes, audit, step)
      if (result.ok) return
      if (hasChanged(conditions, result.current)) {
        throw new ControlError('conflict', 'another change came first; look and try again')
      }
      await pauseAfterLostRace(attempt)
    }
    throw new ControlError('conflict', `gave up after ${ATTEMPTS_MAX} lost races`)
  }

  async #transact(
    conditions: readonly Condition[],
    writes: readonly Write[],
    audit: AuditWriter = withoutAudit,
    step?: VersionStep,
  ): Promise<TransactionResult> {
    const record = await audit(this.#store, step)
    return this.#store.transact(
      [...conditions, ...record.conditions],
      [...writes, ...record.writes],
    )
  }

  async #entry(key: string): Promise<Entry | undefined> {
    const { entries } = await this.#store.range(key, { entriesMax: 1 })
    return entryOf(entries, key)
  }

  /** One change at a time: changes of one process need not race with one another. */
  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(change, change)
    this.#tail = result.catch(() => undefined)
    return result
  }
}

function hasChanged(conditions: readonly Condition[], current: readonly Entry[]): boolean {
  return conditions.some(({ key, revision }) => {
    return (entryOf(current, key)?.revision ?? 0n) !== revision
  })
}

/** A publication is for every node, so that it ends a canary. */
function pointTo({ version, hash }: CurrentPointer): Write[] {
  return [
    { key: CURRENT_KEY, value: JSON.stringify({ version, hash }) },
    { key: CANARY_KEY, value: undefined },
  ]
}

function checkReason({ by, why }: ChangeOptions): void {
  if (by.length === 0 || by.length > BY_LENGTH_MAX) {
    throw new ControlError('out-of-bounds', `by: allowed: 1 to ${BY_LENGTH_MAX} characters`)
  }
  if (why.length === 0 || why.length > WHY_LENGTH_MAX) {
    throw new ControlError('out-of-bounds', `why: allowed: 1 to ${WHY_LENGTH_MAX} characters`)
  }
}
