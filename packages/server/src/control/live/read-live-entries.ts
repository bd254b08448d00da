/**
 * From the entries below `live/` to the rules of the engine. Entries that did not change are not
 * parsed again, so that one change among 50,000 overrides takes milliseconds.
 */

import type { z } from 'zod'
import type { LiveBlock, LiveOverride, LiveSwitch } from '../../limits/live/live-entries.ts'
import type { Entry, Snapshot } from '../key-value.ts'
import {
  BLOCKS_MAX,
  BLOCKS_PREFIX,
  ENTRY_BYTES_MAX,
  entryOf,
  liveBlock,
  liveOverride,
  liveSwitch,
  OVERRIDES_MAX,
  OVERRIDES_PREFIX,
  type StoredBlock,
  SWITCH_KEY,
  storedBlock,
  storedOverride,
  storedSwitch,
} from './entries.ts'

export interface ReadEntries {
  readonly overrides: readonly LiveOverride[]
  readonly blocks: readonly LiveBlock[]
  readonly switch: LiveSwitch | undefined
  /** Entries that were left out. Each problem is a line. */
  readonly problems: readonly string[]
}

/** More would repeat the same cause. */
const PROBLEMS_MAX = 20

type Parsed =
  | { readonly override: LiveOverride }
  | { readonly block: LiveBlock }
  | { readonly switch: LiveSwitch }
  | { readonly problem: string }

interface KnownEntry {
  readonly revision: bigint
  readonly parsed: Parsed
}

/** An entry as it was read, to be removed if it has not changed since. */
export interface ReadEntry {
  readonly key: string
  readonly revision: bigint
}

export class LiveEntryReader {
  #known = new Map<string, KnownEntry>()
  #counts = { overrides: 0, blocks: 0 }

  /** How many entries the store has, with expired ones and those beyond the maximum. */
  get counts(): { readonly overrides: number; readonly blocks: number } {
    return this.#counts
  }

  has(key: string): boolean {
    return this.#known.has(key)
  }

  /** Overrides and blocks that have expired by this time, at most `countMax`. */
  expired(atMs: number, countMax: number): readonly ReadEntry[] {
    const found: ReadEntry[] = []
    for (const [key, { revision, parsed }] of this.#known) {
      if (found.length >= countMax) break
      if (expiryOf(parsed) <= atMs) found.push({ key, revision })
    }
    return found
  }

  read({ entries }: Snapshot): ReadEntries {
    const known = new Map<string, KnownEntry>()
    const overrides: LiveOverride[] = []
    const blocks: LiveBlock[] = []
    const problems: string[] = []
    let found: LiveSwitch | undefined
    for (const entry of entries) {
      const parsed = this.#parsed(entry)
      if (parsed === undefined) continue
      known.set(entry.key, { revision: entry.revision, parsed })
      if ('problem' in parsed) problems.push(parsed.problem)
      else if ('switch' in parsed) found = parsed.switch
      else if ('override' in parsed) overrides.push(parsed.override)
      else blocks.push(parsed.block)
    }
    this.#known = known
    this.#counts = { overrides: overrides.length, blocks: blocks.length }
    problems.push(...excess('overrides', overrides, OVERRIDES_MAX))
    problems.push(...excess('blocks', blocks, BLOCKS_MAX))
    return { overrides, blocks, switch: found, problems: problems.slice(0, PROBLEMS_MAX) }
  }

  #parsed(entry: Entry): Parsed | undefined {
    const known = this.#known.get(entry.key)
    return known?.revision === entry.revision ? known.parsed : parseEntry(entry)
  }
}

/** The switch is one entry and takes no room; an entry that is not valid has no end. */
function expiryOf(parsed: Parsed): number {
  if ('override' in parsed) return parsed.override.expiresAt
  return 'block' in parsed ? parsed.block.expiresAt : Infinity
}

/** Undefined for entries of another kind, such as the version of the policy. */
function parseEntry({ key, value }: Entry): Parsed | undefined {
  const schema = schemaOf(key)
  if (schema === undefined) return undefined
  if (Buffer.byteLength(value) > ENTRY_BYTES_MAX) {
    return { problem: `${shownPath(key)}: has more than ${ENTRY_BYTES_MAX} bytes and is left out` }
  }
  const result = schema.safeParse(entryOf(value))
  if (!result.success) {
    return { problem: `${shownPath(key)}: ${firstIssue(result.error)}; it is left out` }
  }
  if (key === SWITCH_KEY) return { switch: liveSwitch(storedSwitch.parse(entryOf(value))) }
  if (key.startsWith(BLOCKS_PREFIX)) return { block: liveBlock(key, result.data as StoredBlock) }
  return { override: liveOverride(key, result.data as z.output<typeof storedOverride>) }
}

/**
 * Problems are on pages and in logs, which may not reveal a key. Two characters of its digest are
 * enough to find the entry in the store, and fit too many keys to guess one.
 */
function shownPath(key: string): string {
  return key.replace(/(?<=\/[\w-]{2})[\w-]{20}$/, '…')
}

function schemaOf(key: string): z.ZodType | undefined {
  if (key === SWITCH_KEY) return storedSwitch
  if (key.startsWith(OVERRIDES_PREFIX)) return storedOverride
  return key.startsWith(BLOCKS_PREFIX) ? storedBlock : undefined
}

/** Removes the oldest entries beyond the maximum. */
function excess<T extends { readonly at: number }>(
  what: string,
  entries: T[],
  countMax: number,
): string[] {
  const count = entries.length
  if (count <= countMax) return []
  entries.sort((one, other) => other.at - one.at)
  entries.length = countMax
  return [`${count} ${what}; allowed: ${countMax}, so the oldest are left out`]
}

function firstIssue({ issues }: z.ZodError): string {
  const [issue] = issues
  const place = issue?.path.map(String).join('.') ?? ''
  return `${place === '' ? 'the text' : place} is not allowed`
}
