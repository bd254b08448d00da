/**
 * Who turns texts into a policy: this thread at once, or another one beside it. Before anything is
 * served, at once is quicker. Later, nobody may wait for it: a few kilobytes that were made to be
 * slow, or a busy machine, would hold requests up for a tenth of a second.
 */

import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { type PolicyProblem, problemAt } from './policy-problem.ts'
import { type PolicyResult, readPolicy } from './read-policy.ts'
import { readTierTable, type TierTableResult } from './tier-table.ts'

export interface PolicyReaders {
  /** `file` is how the problems call it. */
  policy(text: string, file: string): Promise<PolicyResult>
  tiers(text: string, file: string, names: readonly string[]): Promise<TierTableResult>
}

/** What `policy-reader.ts` is given: `tierNames` where the text is a file of tiers. */
export interface ReadOrder {
  readonly text: string
  readonly file: string
  readonly tierNames: readonly string[] | undefined
}

export const readAtOnce: PolicyReaders = {
  policy: async (text, file) => readPolicy(text, file),
  tiers: async (text, file, names) => readTierTable(text, file, names),
}

export const readAside: PolicyReaders = {
  policy: (text, file) => inThread({ text, file, tierNames: undefined }),
  tiers: (text, file, names) => inThread({ text, file, tierNames: names }),
}

/**
 * The longest policy takes a second on a slow machine. Nobody waits for the thread, and a content
 * that was refused is not read again, so a machine that stands still for a while is no reason.
 */
const READ_MS_MAX = 60_000

interface Refused {
  readonly ok: false
  readonly problems: readonly PolicyProblem[]
}

/** The thread is ended if it takes too long. */
function inThread<T>(workerData: ReadOrder): Promise<T | Refused> {
  return new Promise((resolve) => {
    const resourceLimits = { maxOldGenerationSizeMb: 256 }
    const worker = new Worker(readerUrl(), { workerData, resourceLimits })
    const end = (result: T | Refused) => {
      clearTimeout(timer)
      resolve(result)
      void worker.terminate()
    }
    const fail = (reason: string) => end(refused(workerData.file, reason))
    const timer = setTimeout(() => fail('it takes too long'), READ_MS_MAX)
    worker.once('message', end)
    worker.once('error', (error: Error) => fail(error.message))
    worker.once('exit', () => fail('its reader has ended'))
  })
}

/** As source or as it was built, whichever this is. */
function readerUrl(): URL {
  return new URL(`./policy-reader${extname(import.meta.url)}`, import.meta.url)
}

function refused(file: string, reason: string): Refused {
  const issue = { path: [], text: `cannot be read: ${reason}` }
  return { ok: false, problems: [problemAt(file, { line: 1, column: 1 }, issue)] }
}
