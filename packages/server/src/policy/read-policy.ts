/**
 * From the text of a policy file to the policy, or to what is wrong with it and where. It never
 * throws, whatever the text.
 */

import {
  asWritten,
  type PolicyIssue,
  type PolicyProblem,
  PROBLEMS_MAX,
  problemAt,
} from './policy-problem.ts'
import { policyIssues } from './policy-rules.ts'
import { type PolicyDocument, policySchema } from './policy-schema.ts'
import { schemaIssues } from './schema-issues.ts'
import { type Position, parseYaml } from './yaml-text.ts'

export type PolicyResult =
  | { readonly ok: true; readonly document: PolicyDocument }
  | { readonly ok: false; readonly problems: readonly PolicyProblem[] }

const start: Position = { line: 1, column: 1 }

/** `file` is how the problems call it. */
export function readPolicy(text: string, file: string): PolicyResult {
  try {
    const yaml = parseYaml(text)
    if (!yaml.ok) {
      const problem = problemAt(file, yaml.position, { path: [], text: yaml.text })
      return { ok: false, problems: [problem] }
    }
    return result(yaml.value, file, (issue) => yaml.positionOf(issue))
  } catch (error) {
    // Such as a stack that is used up: nothing known does this, and still the old policy must stay.
    const text = `cannot be read: ${error instanceof Error ? error.message : String(error)}`
    return { ok: false, problems: [problemAt(file, start, { path: [], text })] }
  }
}

/** The same for a value that stands in no file. */
export function parsePolicy(value: unknown, name = 'policy'): PolicyResult {
  return result(value, name, () => start)
}

function result(
  value: unknown,
  file: string,
  positionOf: (issue: PolicyIssue) => Position,
): PolicyResult {
  const { issues, document } = parsed(value)
  if (document !== undefined && issues.length === 0) return { ok: true, document }
  const problems = issues
    .slice(0, PROBLEMS_MAX)
    .map((issue) => problemAt(file, positionOf(issue), asWritten(issue, value)))
    .sort((one, other) => one.line - other.line || one.column - other.column)
  return { ok: false, problems }
}

function parsed(value: unknown): {
  readonly issues: readonly PolicyIssue[]
  readonly document?: PolicyDocument
} {
  if (value === undefined || value === null) {
    return { issues: [{ path: [], text: 'the file is empty; allowed: a policy' }] }
  }
  const parsed = policySchema.safeParse(value)
  if (!parsed.success) return { issues: schemaIssues(parsed.error.issues, value) }
  const document = parsed.data
  return { issues: [...policyIssues(document)], document }
}
