/**
 * The changes of operators in a running service: overrides, blocks, the switch and tokens from the
 * control store, and the parts that the admin API needs.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller } from '../admin/access/caller.ts'
import { Sessions } from '../admin/access/sessions.ts'
import type { AdminContext, ExplainAsked } from '../admin/route.ts'
import { AuditedChanges } from '../control/audit/audited-change.ts'
import { EndedSessions } from '../control/ended-sessions.ts'
import type { KeyValueStore, Snapshot } from '../control/key-value.ts'
import { LIVE_PREFIX } from '../control/live/entries.ts'
import { FORGOTTEN_PREFIX, forgottenIn } from '../control/live/forgotten-regions.ts'
import { LiveSweeper } from '../control/live/live-sweeper.ts'
import { LiveEntryReader } from '../control/live/read-live-entries.ts'
import { openLocalKeyValue } from '../control/local-key-value.ts'
import type { PolicyVersions } from '../control/policy-versions.ts'
import { TokenBook } from '../control/tokens.ts'
import { AuditedVersions } from '../control/versions/audited-versions.ts'
import type { OperatedLimits } from '../limits/counters.ts'
import type { LiveEntries } from '../limits/live/live-entries.ts'
import type { Digest } from '../observability/digests.ts'
import type { Emit } from '../observability/events.ts'
import type { ControlPlane } from './control-plane.ts'
import { SettingError } from './environment.ts'

/** The service that operators change. */
export interface OperatedService {
  /** Replaces all live entries in one step. */
  useLive(entries: LiveEntries): void
  /** Replaces the regions that are given up, with the time since then. */
  forgetRegions?(regions: ReturnType<typeof forgottenIn>): void
  limits(): OperatedLimits
  /** The configuration in force: its version and problems of a refused one. */
  status(): object
  /** Throws ApiError for invalid input. Keys of limits have these digests beside them. */
  explain(input: ExplainAsked, digest: Digest): Promise<object>
  /** Returns the problems that a node would refuse a text for, if it were published. */
  check(text: string): Promise<readonly string[]>
}

export interface ControlRoomOptions {
  /** The place that the nodes of a fleet share. Its owner closes it. */
  readonly plane: Pick<ControlPlane<unknown>, 'store' | 'status'> | undefined
  /** The version of the program. */
  readonly version: string
  readonly isWorker: boolean
  /** The absolute path of the file of this node's changes. */
  readonly stateFile: string | undefined
  readonly service: OperatedService
  readonly emit: Emit
}

/** The source of the policy has waited for the same entries, so that they are mostly here. */
const FIRST_ENTRIES_MS = 100

export interface ContextParts
  extends Pick<AdminContext, 'version' | 'status' | 'top' | 'console' | 'keys' | 'digest'> {
  /** The first token, so that all processes with it accept the sessions of one another. */
  readonly sessionSecret: string | undefined
}

export class ControlRoom {
  readonly #options: ControlRoomOptions
  readonly #store: KeyValueStore
  readonly #tokens: TokenBook
  readonly #ended: EndedSessions
  readonly #changes: AuditedChanges
  readonly #reader = new LiveEntryReader()
  readonly #sweeper: LiveSweeper
  readonly #ends: readonly (() => void)[]
  readonly #first = Promise.withResolvers<void>()
  #problems: readonly string[] = []
  #counts = { overrides: 0, blocks: 0 }

  /** Resolves when the entries of the store are live; without an answer of etcd, before that. */
  static async open(options: ControlRoomOptions): Promise<ControlRoom> {
    const { plane } = options
    const room = new ControlRoom(options, plane?.store ?? (await openOwn(options)))
    const waits = plane === undefined ? [] : [sleep(FIRST_ENTRIES_MS)]
    await Promise.race([room.#first.promise, ...waits])
    return room
  }

  private constructor(options: ControlRoomOptions, store: KeyValueStore) {
    const { emit } = options
    this.#options = options
    this.#store = store
    this.#changes = new AuditedChanges(store, (record) => emit({ type: 'audit', record }))
    this.#tokens = new TokenBook(store)
    this.#ended = new EndedSessions(store)
    this.#sweeper = new LiveSweeper(this.#reader, this.#changes)
    this.#sweeper.start()
    const live = store.follow(LIVE_PREFIX, {
      onChange: (snapshot) => {
        this.#use(snapshot)
        this.#first.resolve()
      },
      // The source of the policy reports the contact with the same store.
      onContact: () => undefined,
    })
    const forgotten = store.follow(FORGOTTEN_PREFIX, {
      onChange: (entries) => options.service.forgetRegions?.(forgottenIn(entries, Date.now())),
      onContact: () => undefined,
    })
    this.#ends = [live, forgotten]
  }

  /** The place of operators' changes. */
  get store(): KeyValueStore {
    return this.#store
  }

  /** The parts of the service that the routes of the admin API use. */
  context({ sessionSecret, ...parts }: ContextParts): AdminContext {
    const { service } = this.#options
    const tokens = this.#tokens
    const isAllowed = ({ id, kind }: Caller) =>
      kind === 'certificate' || id === 'bootstrap' || tokens.isValid(id, Date.now())
    return {
      ...parts,
      control: this.#store,
      changes: this.#changes,
      tokens,
      sessions: new Sessions(isAllowed, sessionSecret, this.#ended),
      isAllowed,
      versions: this.#versions(),
      hasRoom: (key) => this.#sweeper.hasRoom(key),
      limits: () => service.limits(),
      policy: () => service.status(),
      explain: (input) => service.explain(input, parts.digest),
    }
  }

  /** The place of operators' changes, for `/status`. */
  status(): object {
    const { description: kind, scope } = this.#store
    const problems = this.#problems.length === 0 ? undefined : { problems: this.#problems }
    const { plane } = this.#options
    return { kind, scope, ...plane?.status(), ...this.#counts, ...problems }
  }

  async close(): Promise<void> {
    for (const end of this.#ends) end()
    this.#sweeper.close()
    this.#tokens.close()
    this.#ended.close()
    if (this.#options.plane === undefined) await this.#store.close()
  }

  #use(snapshot: Snapshot): void {
    const { problems, ...entries } = this.#reader.read(snapshot)
    const { service, emit } = this.#options
    service.useLive(entries)
    const counts = { overrides: entries.overrides.length, blocks: entries.blocks.length }
    const isNew =
      counts.overrides !== this.#counts.overrides ||
      counts.blocks !== this.#counts.blocks ||
      problems.join() !== this.#problems.join()
    this.#counts = counts
    this.#problems = problems
    if (isNew) emit({ type: 'live-entries', ...counts, problems })
  }

  #versions(): PolicyVersions | undefined {
    const { plane, version, service } = this.#options
    if (plane === undefined) return undefined
    return new AuditedVersions({
      store: this.#store,
      changes: this.#changes,
      program: `tidegate ${version}`,
      check: (text) => service.check(text),
    })
  }
}

async function openOwn({ isWorker, stateFile, emit }: ControlRoomOptions) {
  if (isWorker) {
    const why = 'each process would have its own overrides, blocks and tokens'
    throw new SettingError(`--workers with the admin API needs a control store for all: ${why}`)
  }
  const store = await openLocalKeyValue(stateFile)
  const { problem } = store
  if (problem !== undefined) emit({ type: 'control-note', text: problem })
  return store
}
