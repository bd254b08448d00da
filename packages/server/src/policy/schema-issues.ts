/** What the schema has to say about a value, in our words and with what would be allowed. */

import type { z } from 'zod'
import { policyJsonSchema, type SchemaNode } from './json-schema.ts'
import {
  notAllowed,
  type PolicyIssue,
  type PolicyPath,
  PROBLEMS_MAX,
  valueAt,
} from './policy-problem.ts'

type Issue = z.core.$ZodIssue

/** As many as are shown: each takes a while to put into words, and a text can have thousands. */
export function schemaIssues(issues: readonly Issue[], value: unknown): PolicyIssue[] {
  const found: PolicyIssue[] = []
  for (const issue of issues) {
    if (found.length >= PROBLEMS_MAX) break
    found.push(...fromIssue(issue, [], value))
  }
  return found
}

const kinds: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
  record: 'a mapping',
}

function fromIssue(issue: Issue, base: PolicyPath, root: unknown): PolicyIssue[] {
  const path = [
    ...base,
    ...issue.path.map((part) => (typeof part === 'number' ? part : String(part))),
  ]
  if (issue.code === 'unrecognized_keys') {
    const known = fieldsAt(path)
    const keys = issue.keys.slice(0, PROBLEMS_MAX)
    return keys.map((key) => unknownField([...path, key], key, known))
  }
  if (issue.code === 'invalid_union') {
    const fitting = issue.errors.filter((branch) => !branch.every(isOtherKind))
    const [only] = fitting
    if (fitting.length === 1 && only !== undefined) {
      return only.flatMap((inner) => fromIssue(inner, path, root))
    }
  }
  if (issue.code === 'invalid_key') {
    const [inner] = issue.issues
    const key = String(path.at(-1))
    const text = notAllowed(path, key, inner === undefined ? 'a name' : allowedBy(inner)).text
    return [{ path, text, isAboutKey: true }]
  }
  return [notAllowed(path, valueAt(root, path), allowedBy(issue))]
}

/** Whether a branch of a choice failed because the value is of another kind altogether. */
function isOtherKind(issue: Issue): boolean {
  if (issue.path.length > 0) return false
  if (issue.code === 'invalid_union')
    return issue.errors.every((branch) => branch.every(isOtherKind))
  return issue.code === 'invalid_type' || issue.code === 'invalid_value'
}

function allowedBy(issue: Issue): string {
  // What a field says itself is what it allows; the rest are the sentences of the schema library.
  if (!/^(Invalid|Too |Unrecognized)/.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      return kinds[issue.expected] ?? issue.expected
    case 'invalid_value':
      return issue.values.map(String).join(', ')
    case 'too_small':
      return `at least ${issue.minimum}${unit(issue.origin, issue.minimum)}`
    case 'too_big':
      return `at most ${issue.maximum}${unit(issue.origin, issue.maximum)}`
    case 'invalid_union':
      return kindsOf(issue.errors)
    case 'invalid_format':
      return `a text of the form ${issue.format}`
    default:
      return issue.message
  }
}

function unit(origin: string, count: number | bigint): string {
  if (origin === 'string') return count === 1 ? ' character' : ' characters'
  if (origin === 'array') return count === 1 ? ' entry' : ' entries'
  return ''
}

function kindsOf(branches: readonly (readonly Issue[])[]): string {
  const texts = branches.flatMap((branch) => branch.slice(0, 1).map(allowedBy))
  return [...new Set(texts)].join(', or ')
}

function unknownField(path: PolicyPath, key: string, known: readonly string[]): PolicyIssue {
  const near = nearest(key, known)
  const hint = near === undefined ? `allowed: ${known.join(', ')}` : `did you mean ${near}?`
  return { path, text: `is not known; ${hint}`, isAboutKey: true }
}

function fieldsAt(path: PolicyPath): string[] {
  let nodes: readonly SchemaNode[] = flat(policyJsonSchema())
  for (const part of path) nodes = nodes.flatMap((node) => flat(childOf(node, part)))
  return [...new Set(nodes.flatMap(({ properties = {} }) => Object.keys(properties)))]
}

function childOf(node: SchemaNode, part: string | number): SchemaNode | undefined {
  if (typeof part === 'number') return node.items
  const { properties = {}, additionalProperties } = node
  if (Object.hasOwn(properties, part)) return properties[part]
  return typeof additionalProperties === 'object' ? additionalProperties : undefined
}

function flat(node: SchemaNode | undefined): readonly SchemaNode[] {
  return node === undefined ? [] : [node, ...(node.anyOf ?? []).flatMap(flat)]
}

/** Further away, it is more likely something else than a slip of the finger. */
const SLIPS_MAX = 2

function nearest(word: string, known: readonly string[]): string | undefined {
  const slips = known.map((other) => ({ other, count: slipsBetween(word, other) }))
  const [best] = slips.sort((one, two) => one.count - two.count)
  const isNear = best !== undefined && best.count <= Math.min(SLIPS_MAX, word.length / 2)
  return isNear ? best.other : undefined
}

/** Letters to insert, drop, replace or swap with their neighbour; the case does not matter. */
function slipsBetween(word: string, other: string): number {
  if (Math.abs(word.length - other.length) > SLIPS_MAX) return Infinity
  const [a, b] = [word.toLowerCase(), other.toLowerCase()]
  const rows = [Array.from({ length: b.length + 1 }, (_, at) => at)]
  const cell = (row: number, column: number) => rows[row]?.[column] ?? Infinity
  for (let row = 1; row <= a.length; row++) {
    const current: number[] = [row]
    rows.push(current)
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1]
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current[column] = Math.min(
        cell(row - 1, column) + 1,
        cell(row, column - 1) + 1,
        cell(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? cell(row - 2, column - 2) + 1 : Infinity,
      )
    }
  }
  return cell(a.length, b.length)
}
