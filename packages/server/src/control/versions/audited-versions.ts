/**
 * Versions of a policy for the admin API: a text is checked as a node would check it, and a version
 * is published in one transaction with its audit record.
 */

import type { AuditEntry } from '../audit/audit-record.ts'
import type { AuditedChanges } from '../audit/audited-change.ts'
import type { KeyValueStore } from '../key-value.ts'
import type {
  CanaryRequest,
  CanaryResult,
  PolicyVersion,
  PolicyVersionSummary,
  PolicyVersions,
  PublishedBy,
  PublishRequest,
  PublishResult,
  RollbackRequest,
} from '../policy-versions.ts'
import { lineDiff } from './line-diff.ts'
import type { CanaryPointer, VersionRecord } from './version-record.ts'
import { VersionConflict, Versions } from './versions.ts'

export interface AuditedVersionsOptions {
  readonly store: KeyValueStore
  /** One for all changes of the process, because all of them move one head of the audit. */
  readonly changes: AuditedChanges
  /** The program that publishes, such as `tidegate 1.0.0`. */
  readonly program: string
  /** Returns the problems that a node would refuse the text for, each as a line. */
  check(text: string): Promise<readonly string[]>
}

interface NewVersion extends PublishedBy {
  readonly text: string
  readonly expected: number
  readonly rollbackOf?: number
}

type Refused = Exclude<PublishResult, { readonly ok: true }>

export class AuditedVersions implements PolicyVersions {
  readonly #options: AuditedVersionsOptions
  readonly #versions: Versions

  constructor(options: AuditedVersionsOptions) {
    this.#options = options
    this.#versions = new Versions(options.store)
  }

  async current(): Promise<PolicyVersion | undefined> {
    const record = await this.#versions.current()
    return record && { ...summaryOf(record), text: record.text }
  }

  async history(countMax: number, before?: number): Promise<readonly PolicyVersionSummary[]> {
    return (await this.#versions.history(countMax, before)).map(summaryOf)
  }

  async version(version: number): Promise<PolicyVersion | undefined> {
    const record = await this.#versions.find(version)
    return record && { ...summaryOf(record), text: record.text }
  }

  async diff(from: number, to: number): Promise<string | undefined> {
    const [before, after] = await Promise.all([from, to].map((one) => this.#versions.find(one)))
    return before && after && lineDiff(before.text, after.text)
  }

  async publish(request: PublishRequest): Promise<PublishResult> {
    return this.#publish(request)
  }

  async rollback({ to, ...request }: RollbackRequest): Promise<PublishResult> {
    const record = await this.#versions.find(to)
    if (record === undefined) return { ok: false, reason: 'unknown' }
    return this.#publish({ ...request, text: record.text, rollbackOf: to })
  }

  canary(): Promise<CanaryPointer | undefined> {
    return this.#versions.canary()
  }

  async beginCanary(request: CanaryRequest): Promise<CanaryResult> {
    const { text, expected, where, until, why, actor } = request
    const refused = await this.#refusal(request)
    if (refused !== undefined) return refused
    const { changes, program } = this.#options
    const change = { by: actor.name, why }
    const entry = { ...publicationEntry(request), after: { where } }
    return this.#orConflict(expected, async () => {
      const staged = await changes.run({ ...entry, action: 'policy.stage' }, (audit) =>
        this.#versions.stage(text, { ...change, parent: expected, program, audit }),
      )
      const { version, hash } = staged
      const after = { where, version, until: until.toISOString() }
      await changes.run({ ...entry, action: 'policy.canary', after }, (audit) =>
        this.#versions.setCanary({ version, where, until }, { ...change, audit }),
      )
      return { ok: true, canary: { version, hash, where, until: after.until } }
    })
  }

  async promote(request: PublishedBy): Promise<PublishResult> {
    const canary = await this.canary()
    if (canary === undefined) return { ok: false, reason: 'unknown' }
    const { parent } = await this.#versions.get(canary.version)
    const { actor, why } = request
    const entry = { ...publicationEntry(request), action: 'policy.promote' }
    return this.#orConflict(parent, async () => {
      const record = await this.#options.changes.run(entry, (audit) =>
        this.#versions.promote({ by: actor.name, why, audit }),
      )
      return { ok: true, published: summaryOf(record) }
    })
  }

  async abort(request: PublishedBy): Promise<number | undefined> {
    const canary = await this.canary()
    if (canary === undefined) return undefined
    const { version } = canary
    const { actor, why } = request
    const entry = { ...publicationEntry(request), action: 'policy.abort', before: { version } }
    await this.#options.changes.run(entry, (audit) =>
      this.#versions.setCanary(undefined, { by: actor.name, why, audit }),
    )
    return version
  }

  async #publish(version: NewVersion): Promise<PublishResult> {
    const refused = await this.#refusal(version)
    if (refused !== undefined) return refused
    return this.#orConflict(version.expected, async () => {
      return { ok: true, published: summaryOf(await this.#write(version)) }
    })
  }

  /** Looks for another version before the check, which takes longer. */
  async #refusal({ text, expected }: NewVersion): Promise<Refused | undefined> {
    const current = await this.#versions.current()
    if ((current?.version ?? 0) !== expected) return this.#conflict(expected, current)
    const problems = await this.#options.check(text)
    return problems.length > 0 ? { ok: false, reason: 'invalid', problems } : undefined
  }

  async #orConflict<T>(expected: number, write: () => Promise<T>): Promise<T | Refused> {
    try {
      return await write()
    } catch (error) {
      if (error instanceof VersionConflict) return this.#conflict(expected, error.current)
      throw error
    }
  }

  #write(version: NewVersion): Promise<VersionRecord> {
    const { text, expected: parent, why, actor, rollbackOf } = version
    const { changes, program } = this.#options
    const publication = { by: actor.name, why, parent, program }
    const again = rollbackOf === undefined ? undefined : { rollbackOf }
    return changes.run(publicationEntry(version), (audit) =>
      this.#versions.publish(text, { ...publication, ...again, audit }),
    )
  }

  /** The difference is what the author has not seen. */
  async #conflict(expected: number, current: VersionRecord | undefined): Promise<Refused> {
    const seen = await this.#versions.find(expected)
    const diff = current === undefined ? '' : lineDiff(seen?.text ?? '', current.text)
    return { ok: false, reason: 'conflict', current: current && summaryOf(current), diff }
  }
}

/** The audit record of a publication, without the numbers of its versions. */
export function publicationEntry(
  version: PublishedBy & { readonly rollbackOf?: number | undefined },
): AuditEntry {
  const { actor, ip, requestId, why, rollbackOf } = version
  return {
    actor,
    ip,
    requestId,
    action: rollbackOf === undefined ? 'policy.publish' : 'policy.rollback',
    target: { type: 'policy' },
    ...(rollbackOf !== undefined && { after: { rollbackOf } }),
    reason: why,
    result: 'done',
  }
}

function summaryOf(record: Omit<VersionRecord, 'text'>): PolicyVersionSummary {
  const { version, hash, by, at, why, parent, rollbackOf } = record
  return { version, hash, by, at, why, parent, rollbackOf }
}
