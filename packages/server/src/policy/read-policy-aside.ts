/**
 * Reads a policy without keeping requests waiting: a long text is read by another thread, which is
 * ended if it takes too long. A short one is read at once, because a thread takes time to start.
 */

import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { problemAt } from './policy-problem.ts'
import { type PolicyResult, readPolicy } from './read-policy.ts'

/** Takes some 10 ms, the most hostile text of that length a few times as much. */
const SHORT_LENGTH_MAX = 16 * 1024

/** The longest policy takes a second on a slow machine. */
const READ_MS_MAX = 10_000

/** What `policy-reader.ts` is given. */
export interface ReadOrder {
  readonly text: string
  readonly file: string
}

export function readPolicyAside(text: string, file: string): Promise<PolicyResult> {
  if (text.length <= SHORT_LENGTH_MAX) return Promise.resolve(readPolicy(text, file))
  return new Promise((resolve) => {
    const workerData: ReadOrder = { text, file }
    const resourceLimits = { maxOldGenerationSizeMb: 256 }
    const worker = new Worker(readerUrl(), { workerData, resourceLimits })
    const end = (result: PolicyResult) => {
      clearTimeout(timer)
      resolve(result)
      void worker.terminate()
    }
    const timer = setTimeout(() => end(failed(file, 'it takes too long')), READ_MS_MAX)
    worker.once('message', end)
    worker.once('error', (error: Error) => end(failed(file, error.message)))
    worker.once('exit', () => end(failed(file, 'its reader has ended')))
  })
}

/** As source or as it was built, whichever this is. */
function readerUrl(): URL {
  return new URL(`./policy-reader${extname(import.meta.url)}`, import.meta.url)
}

function failed(file: string, reason: string): PolicyResult {
  const issue = { path: [], text: `cannot be read: ${reason}` }
  return { ok: false, problems: [problemAt(file, { line: 1, column: 1 }, issue)] }
}
