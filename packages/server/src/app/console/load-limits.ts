/** Reads the limits of a policy that an operator tries. */

import { parseInKeptWorker } from '../../policy/policy-parsers.ts'
import type { PolicyControl } from '../policy-config.ts'
import type { LoadedLimits } from './console-feed.ts'

/** With a control store, as a document that is published; else as a policy of its own. */
export async function loadLimits(
  text: string,
  control: PolicyControl | undefined,
): Promise<LoadedLimits> {
  if (control !== undefined) {
    const loaded = await control.load(text)
    if (loaded.ok) return { ok: true, limits: loaded.value.document.limits }
    return { ok: false, problems: loaded.problems.map(({ message }) => message) }
  }
  const read = await parseInKeptWorker.policy(text, 'document', undefined)
  if (read.ok) return { ok: true, limits: read.document.limits }
  return { ok: false, problems: read.problems.map(({ message }) => message) }
}
