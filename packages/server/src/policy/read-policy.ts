/**
 * From the text of a policy file to the policy, or to its problems with their lines. It never
 * throws.
 */

import { type Position, parseYaml } from '../config/yaml/yaml-text.ts'
import { policyIssues } from './policy-rules.ts'
import {
  asWritten,
  type PolicyIssue,
  type PolicyProblem,
  PROBLEMS_MAX,
  problemAt,
} from './problems/policy-problem.ts'
import { schemaIssues } from './problems/schema-issues.ts'
import { mergedPolicy, nameIssues, sectionIssues } from './remote-policy.ts'
import { type PolicyDocument, policySchema } from './schema/policy-schema.ts'

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
    const lack = missingLimits(yaml.value)
    return result(yaml.value, file, (issue) => yaml.positionOf(issue), lack)
  } catch (error) {
    // Such as a stack that is used up: nothing known does this, and still the old policy must stay.
    const text = `cannot be read: ${error instanceof Error ? error.message : String(error)}`
    return { ok: false, problems: [problemAt(file, start, { path: [], text })] }
  }
}

export interface PolicyText {
  readonly text: string
  /** The name in problems. */
  readonly file: string
}

/** Reads a policy from outside with the sections of the local file that it does not replace. */
export function readRemotePolicy(local: PolicyText, remote: PolicyText): PolicyResult {
  const own = readPolicy(local.text, local.file)
  if (!own.ok) return own
  try {
    const yaml = parseYaml(remote.text)
    if (!yaml.ok) {
      const problem = problemAt(remote.file, yaml.position, { path: [], text: yaml.text })
      return { ok: false, problems: [problem] }
    }
    const base = parseYaml(local.text)
    const outside = objectOf(yaml.value)
    const merged = mergedPolicy(objectOf(base.ok ? base.value : {}), outside)
    const lack = [...missingLimits(yaml.value ?? {}), ...sectionIssues(outside)]
    const { file } = remote
    const read = result(merged, file, (issue) => yaml.positionOf(issue), lack)
    if (!read.ok) return read
    const names = nameIssues(read.document, outside)
    if (names.length === 0) return read
    const problems = names.map((issue) => problemAt(file, yaml.positionOf(issue), issue))
    return { ok: false, problems }
  } catch (error) {
    const text = `cannot be read: ${error instanceof Error ? error.message : String(error)}`
    return { ok: false, problems: [problemAt(remote.file, start, { path: [], text })] }
  }
}

function objectOf(value: unknown): object {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {}
}

/** Checks a policy that does not come from a file. */
export function parsePolicy(value: unknown, name = 'policy'): PolicyResult {
  return result(value, name, () => start)
}

function result(
  value: unknown,
  file: string,
  positionOf: (issue: PolicyIssue) => Position,
  further: readonly PolicyIssue[] = [],
): PolicyResult {
  const { issues: own, document } = parsed(value)
  const issues = [...own, ...further]
  if (document !== undefined && issues.length === 0) return { ok: true, document }
  const problems = issues
    .slice(0, PROBLEMS_MAX)
    .map((issue) => problemAt(file, positionOf(issue), asWritten(issue, value)))
    .sort((one, other) => one.line - other.line || one.column - other.column)
  return { ok: false, problems }
}

/**
 * The first half of a file that is being written, or that did not fit on the disk, is often a valid
 * policy, but one without limits. So a file that limits nothing has to declare it.
 */
function missingLimits(value: unknown): readonly PolicyIssue[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  if (Object.hasOwn(value, 'limits')) return []
  if ('enabled' in value && value.enabled === false) return []
  const text = 'is missing; allowed: a list of limits. To limit nothing, write limits: []'
  return [{ path: ['limits'], text }]
}

function parsed(value: unknown): {
  readonly issues: readonly PolicyIssue[]
  readonly document?: PolicyDocument
} {
  if (value === undefined || value === null) {
    return { issues: [{ path: [], text: 'the file is empty; allowed: a policy' }] }
  }
  const parsed = policySchema.safeParse(value)
  if (parsed.success) return { issues: [...policyIssues(parsed.data)], document: parsed.data }
  const issues = schemaIssues(parsed.error.issues, value)
  return { issues: [...issues, ...rest(value, issues)] }
}

/** The problems that the rules find in valid sections, so that all are reported together. */
function rest(value: unknown, issues: readonly PolicyIssue[]): readonly PolicyIssue[] {
  if (typeof value !== 'object' || issues.length >= PROBLEMS_MAX) return []
  const broken = new Set(issues.map(({ path }) => String(path[0])))
  const intact = Object.entries(value ?? {}).filter(([section]) => !broken.has(section))
  const parsed = policySchema.safeParse(Object.fromEntries(intact))
  return parsed.success ? [...policyIssues(parsed.data, broken)] : []
}
