/**
 * The changes of operators in a running service: overrides, blocks, the switch and tokens from the
 * control store, and the parts that the admin API needs.
 */

import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sessions } from '../admin/access/sessions.ts'
import type { AdminAccess } from '../admin/admin-api.ts'
import type { AdminContext, ExplainAsked } from '../admin/route.ts'
import { AuditedChanges } from '../control/audit/audited-change.ts'
import type { KeyValueStore, Snapshot } from '../control/key-value.ts'
import { LIVE_PREFIX } from '../control/live/entries.ts'
import { LiveEntryReader } from '../control/live/read-live-entries.ts'
import { openLocalKeyValue } from '../control/local-key-value.ts'
import type { PolicyVersions } from '../control/policy-versions.ts'
import { TokenBook } from '../control/tokens.ts'
import { AuditedVersions } from '../control/versions/audited-versions.ts'
import { ApiError } from '../http-api/api-error.ts'
import type { Emit } from '../observability/events.ts'
import type { AdminSection } from '../policy/schema/admin-section.ts'
import { SettingError } from './environment.ts'
import { explainLive, InputError } from './explain/explain-policy.ts'
import type { PolicyControl } from './policy-config.ts'
import type { PolicyRuntime } from './policy-runtime.ts'

export interface ControlRoomOptions {
  /** The store that the nodes of a fleet share. Its owner closes it. */
  readonly control: PolicyControl | undefined
  /** The version of the program. */
  readonly version: string
  readonly isWorker: boolean
  /** Relative file names begin here. */
  readonly folder: string
  /** The file of this node's changes. */
  readonly stateFile: string | undefined
  readonly runtime: PolicyRuntime
  readonly emit: Emit
}

/** The source of the policy has waited for the same entries, so that they are mostly here. */
const FIRST_ENTRIES_MS = 100

/** The token of the policy is a random text; a shorter one was made up. */
const TOKEN_LENGTH_MIN = 32

export class ControlRoom {
  readonly #options: ControlRoomOptions
  readonly #store: KeyValueStore
  readonly #tokens: TokenBook
  readonly #changes: AuditedChanges
  readonly #reader = new LiveEntryReader()
  readonly #end: () => void
  readonly #first = Promise.withResolvers<void>()
  #problems: readonly string[] = []
  #counts = { overrides: 0, blocks: 0 }

  /** Resolves when the entries of the store are live; without an answer of etcd, before that. */
  static async open(options: ControlRoomOptions): Promise<ControlRoom> {
    const { control } = options
    const room = new ControlRoom(options, control?.plane.store ?? (await openOwn(options)))
    const waits = control === undefined ? [] : [sleep(FIRST_ENTRIES_MS)]
    await Promise.race([room.#first.promise, ...waits])
    return room
  }

  private constructor(options: ControlRoomOptions, store: KeyValueStore) {
    const { emit } = options
    this.#options = options
    this.#store = store
    this.#changes = new AuditedChanges(store, (record) => emit({ type: 'audit', record }))
    this.#tokens = new TokenBook(store)
    this.#end = store.follow(LIVE_PREFIX, {
      onChange: (snapshot) => {
        this.#use(snapshot)
        this.#first.resolve()
      },
      // The source of the policy reports the contact with the same store.
      onContact: () => undefined,
    })
  }

  api(
    admin: NonNullable<AdminSection>,
    { version, status, top }: Pick<AdminContext, 'version' | 'status' | 'top'>,
  ): { readonly context: AdminContext; readonly access: AdminAccess } {
    const { runtime } = this.#options
    const tokens = this.#tokens
    const isValid = (id: string) => id === 'bootstrap' || tokens.isValid(id, Date.now())
    const context: AdminContext = {
      control: this.#store,
      changes: this.#changes,
      tokens,
      sessions: new Sessions(({ id }) => isValid(id)),
      versions: this.#versions(),
      counters: runtime.store.store,
      version,
      status,
      top,
      enforcer: runtime.enforcer,
      policy: () => runtime.status(),
      explain: (input) => explainAsked(runtime, input),
    }
    return { context, access: accessOf(admin, runtime) }
  }

  /** The place of operators' changes, for `/status`. */
  status(): object {
    const { description: kind, scope } = this.#store
    const problems = this.#problems.length === 0 ? undefined : { problems: this.#problems }
    const { control } = this.#options
    return { kind, scope, ...control?.plane.status(), ...this.#counts, ...problems }
  }

  async close(): Promise<void> {
    this.#end()
    this.#tokens.close()
    if (this.#options.control === undefined) await this.#store.close()
  }

  #use(snapshot: Snapshot): void {
    const { problems, ...entries } = this.#reader.read(snapshot)
    const { runtime, emit } = this.#options
    runtime.useLive(entries)
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
    const { control, version } = this.#options
    if (control === undefined) return undefined
    return new AuditedVersions({
      store: this.#store,
      changes: this.#changes,
      program: `tidegate ${version}`,
      check: (text) => this.#check(control, text),
    })
  }

  async #check(control: PolicyControl, text: string): Promise<readonly string[]> {
    const loaded = await control.load(text)
    if (!loaded.ok) return loaded.problems.map(({ message }) => message)
    const problem = this.#options.runtime.problemOf(loaded.value)
    return problem === undefined ? [] : [problem]
  }
}

/** True if there is a credential for the admin API. */
export function hasAdminApi(admin: AdminSection): boolean {
  if (admin === undefined) return false
  return admin.token !== undefined || Object.keys(admin.certificates).length > 0
}

async function openOwn({ isWorker, stateFile, folder, emit }: ControlRoomOptions) {
  if (isWorker) {
    const why = 'each process would have its own overrides, blocks and tokens'
    throw new SettingError(`--workers with the admin API needs a control store for all: ${why}`)
  }
  const file = stateFile === undefined ? undefined : resolve(folder, stateFile)
  const store = await openLocalKeyValue(file)
  const { problem } = store
  if (problem !== undefined) emit({ type: 'control-note', text: problem })
  return store
}

function accessOf(
  { token, certificates, hosts }: NonNullable<AdminSection>,
  { readSecret }: PolicyRuntime,
): AdminAccess {
  const bootstrapToken = token === undefined ? undefined : readSecret(token, 'admin.token')
  if (bootstrapToken !== undefined && bootstrapToken.length < TOKEN_LENGTH_MIN) {
    throw new Error(`admin.token: the secret is too short; allowed: ${TOKEN_LENGTH_MIN} characters`)
  }
  const names = hosts.map((name) => name.toLowerCase())
  return { bootstrapToken, certificateRoles: certificates, hosts: names }
}

async function explainAsked(runtime: PolicyRuntime, input: ExplainAsked): Promise<object> {
  const { policy, readSecret, enforcer } = runtime
  const headers = new Map(
    Object.entries(input.headers).map(([name, value]) => [name.toLowerCase(), value]),
  )
  try {
    const parts = { policy, readSecret, enforcer: enforcer() }
    const { facts, explained } = await explainLive(parts, { ...input, headers })
    const { method, path, ip } = facts
    return { request: { method, path, ip }, ...explained }
  } catch (error) {
    const isKnown = error instanceof InputError || error instanceof SettingError
    throw isKnown ? new ApiError(422, error.message) : error
  }
}
