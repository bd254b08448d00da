/** The file of `tiers.lookup.file`: a mapping of ids to tiers, such as `org_1: premium`. */

import { parseYaml } from '../config/yaml/yaml-text.ts'
import type { TierTable } from '../limits/tiers/tiers.ts'
import {
  notAllowed,
  type PolicyProblem,
  PROBLEMS_MAX,
  problemAt,
} from './problems/policy-problem.ts'

export type TierTableResult =
  | { readonly ok: true; readonly table: TierTable }
  | { readonly ok: false; readonly problems: readonly PolicyProblem[] }

export function readTierTable(
  text: string,
  file: string,
  names: readonly string[],
): TierTableResult {
  const yaml = parseYaml(text)
  if (!yaml.ok) {
    return { ok: false, problems: [problemAt(file, yaml.position, { path: [], text: yaml.text })] }
  }
  const { value = {} } = yaml
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const issue = notAllowed([], value, 'a mapping of ids to tiers, such as org_1: premium')
    return { ok: false, problems: [problemAt(file, { line: 1, column: 1 }, issue)] }
  }
  const table = new Map<string, string>()
  const problems: PolicyProblem[] = []
  for (const [id, tier] of Object.entries(value)) {
    if (typeof tier === 'string' && names.includes(tier)) {
      table.set(id, tier)
      continue
    }
    // The value is not repeated: the file may be one of secrets that was named by mistake.
    const issue = { path: [id], text: `the tier is not allowed; allowed: ${names.join(', ')}` }
    if (problems.length < PROBLEMS_MAX)
      problems.push(problemAt(file, yaml.positionOf(issue), issue))
  }
  return problems.length === 0 ? { ok: true, table } : { ok: false, problems }
}
