/**
 * The parsers of a policy and of the files that it names: in this thread, which is quicker while
 * nothing is served, in a worker for each text, or in a worker that is kept.
 */

import { KeptWorker, parseInWorker, workerBeside } from '../config/parse-in-worker.ts'
import type { KeyFile, KeyFileResult } from './api-keys/key-file.ts'
import { type PolicyProblem, problemAt } from './problems/policy-problem.ts'
import { type PolicyResult, type PolicyText, readPolicy, readRemotePolicy } from './read-policy.ts'
import { readTierTable, type TierTableResult } from './read-tier-table.ts'

export interface PolicyParsers {
  /** `file` is the name in problems. `remote` replaces sections of the text. */
  policy(text: string, file: string, remote: PolicyText | undefined): Promise<PolicyResult>
  tiers(text: string, file: string, names: readonly string[]): Promise<TierTableResult>
  /** Reads the file of API keys, always in a worker: there may be hundreds of thousands. */
  keys(file: KeyFile): Promise<KeyFileResult>
}

/** The input of parse-worker.ts. */
export type ParseOrder = TextOrder | KeyFile

/** `tierNames` is set if the text is a file of tiers. */
export interface TextOrder {
  readonly text: string
  readonly file: string
  readonly tierNames: readonly string[] | undefined
  readonly remote?: PolicyText | undefined
}

export const parseHere: PolicyParsers = {
  policy: async (text, file, remote) => policyOf({ text, file }, remote),
  tiers: async (text, file, names) => readTierTable(text, file, names),
  keys: keysInWorker,
}

export const parseInWorkers: PolicyParsers = {
  policy: (text, file, remote) =>
    inWorker({ text, file, tierNames: undefined, remote }, TEXT_MS_MAX),
  tiers: (text, file, names) => inWorker({ text, file, tierNames: names }, TEXT_MS_MAX),
  keys: keysInWorker,
}

/** For published policies, which have to be live on all nodes of a fleet within a second. */
export const parseInKeptWorker: PolicyParsers = {
  policy: (text, file, remote) => inKept({ text, file, tierNames: undefined, remote }, TEXT_MS_MAX),
  tiers: (text, file, names) => inKept({ text, file, tierNames: names }, TEXT_MS_MAX),
  async keys(file) {
    const result = withDigest(await inKept<KeyFileResult>(file, KEYS_MS_MAX))
    // A list that was parsed leaves a large heap behind.
    if (!result.ok || result.table !== 'known') kept.replace()
    return result
  },
}

const workerModule = workerBeside(import.meta.url, 'parse-worker')

/** One for the process. */
const kept = new KeptWorker(workerModule)

/**
 * Starts the kept worker, so that the first published policy does not wait for it. Resolves when it
 * has parsed a policy, or after `timeoutMs`.
 */
export async function warmUpParser(timeoutMs: number): Promise<void> {
  await kept.ready(firstOrder, timeoutMs)
}

/** Takes the way of a published policy. The first use of the schema takes a tenth of a second. */
const firstOrder: TextOrder = {
  text: 'limits: []\n',
  file: 'none',
  tierNames: undefined,
  remote: {
    text: 'limits: [{ name: any, key: ip, otherwise: deny, limit: 1, per: 1s }]\n',
    file: 'none',
  },
}

export function policyOf(local: PolicyText, remote: PolicyText | undefined): PolicyResult {
  return remote === undefined ? readPolicy(local.text, local.file) : readRemotePolicy(local, remote)
}

/** The longest policy takes a second on a slow machine; a busy one takes many times as long. */
const TEXT_MS_MAX = 20_000

/** The largest list in YAML takes 15 s; a busy machine takes many times as long. */
const KEYS_MS_MAX = 300_000

interface Refused {
  readonly ok: false
  readonly problems: readonly PolicyProblem[]
}

async function keysInWorker(order: KeyFile): Promise<KeyFileResult> {
  return withDigest(await inWorker<KeyFileResult>(order, KEYS_MS_MAX))
}

function withDigest(result: KeyFileResult | Refused): KeyFileResult {
  return 'digest' in result || result.ok ? result : { ...result, digest: '' }
}

function inWorker<T>(order: ParseOrder, timeoutMs: number): Promise<T | Refused> {
  return orRefused(order, parseInWorker<T>(workerModule, order, timeoutMs))
}

function inKept<T>(order: ParseOrder, timeoutMs: number): Promise<T | Refused> {
  return orRefused(order, kept.parse<T>(order, timeoutMs))
}

async function orRefused<T>(order: ParseOrder, parsed: Promise<T>): Promise<T | Refused> {
  try {
    return await parsed
  } catch (error) {
    const issue = { path: [], text: `cannot be read: ${(error as Error).message}` }
    return { ok: false, problems: [problemAt(order.file, { line: 1, column: 1 }, issue)] }
  }
}
