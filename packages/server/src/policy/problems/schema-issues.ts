/** Turns issues of the schema library into problems that name the allowed values. */

import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import { show } from '../../config/shown-text.ts'
import { policyJsonSchema, type SchemaNode } from '../schema/json-schema.ts'
import { policySchema } from '../schema/policy-schema.ts'
import {
  nameNotAllowed,
  notAllowed,
  type PolicyIssue,
  type PolicyPath,
  PROBLEMS_MAX,
  valueAt,
} from './policy-problem.ts'
import { isShownField } from './shown-fields.ts'

type Issue = z.core.$ZodIssue

/**
 * As many as are shown: each takes a while to put into words, and a text can have thousands. Of a
 * policy, values that may be secrets are not repeated. `schema` is that of a request instead, whose
 * client knows the values.
 */
export function schemaIssues(
  issues: readonly Issue[],
  value: unknown,
  schema?: () => SchemaNode,
): PolicyIssue[] {
  const root: Root =
    schema === undefined
      ? { value, schema: policyJsonSchema, isShown: isShownInPolicy }
      : { value, schema, isShown: () => true }
  const found: PolicyIssue[] = []
  for (const issue of issues.filter((one) => !isFollowUp(one, issues))) {
    if (found.length >= PROBLEMS_MAX) break
    found.push(...fromIssue(issue, [], root))
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

interface Root {
  readonly value: unknown
  schema(): SchemaNode
  /** Whether a message may repeat the value at a place. */
  isShown(path: PolicyPath): boolean
}

function isShownInPolicy(path: PolicyPath): boolean {
  return isShownField(policySchema, path)
}

function fromIssue(issue: Issue, base: PolicyPath, root: Root): PolicyIssue[] {
  const path = [
    ...base,
    ...issue.path.map((part) => (typeof part === 'number' ? part : String(part))),
  ]
  if (issue.code === 'unrecognized_keys') {
    const known = fieldsAt(path, root.schema())
    const keys = issue.keys.slice(0, PROBLEMS_MAX)
    return keys.map((key) => unknownField([...path, key], key, known))
  }
  if (issue.code === 'invalid_union') {
    const inside = insideChoice(issue, path, root)
    if (inside.length > 0) return inside
  }
  if (issue.code === 'invalid_key') {
    const [inner] = issue.issues
    return [nameNotAllowed(path, inner === undefined ? 'a name' : allowedBy(inner))]
  }
  const value = valueAt(root.value, path)
  const hint = meantBy(value, path, root)
  const allowed = `${allowedBy(issue)}${hint === undefined ? '' : `; did you mean ${hint}?`}`
  return [notAllowed(path, value, allowed, root.isShown(path))]
}

/** The mistakes in the branch of a choice that the value is meant for; none if that is unclear. */
function insideChoice(choice: Choice, path: PolicyPath, root: Root): PolicyIssue[] {
  const fitting = branchesOf(choice).filter((branch) => !isOtherKind(branch))
  const known = fitting.filter((branch) => !branch.some(isUnknownField))
  const [only] = known.length === 1 ? known : fitting
  if (only !== undefined && (known.length === 1 || fitting.length === 1)) {
    return only.flatMap((inner) => fromIssue(inner, path, root))
  }
  const value = valueAt(root.value, path)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  const fields = fieldsAt(path, root.schema())
  const unknown = Object.keys(value).filter((key) => !fields.includes(key))
  return unknown.slice(0, PROBLEMS_MAX).map((key) => unknownField([...path, key], key, fields))
}

type Choice = Extract<Issue, { readonly code: 'invalid_union' }>

/** All branches of a choice, those of choices in it included. */
function branchesOf({ errors }: Choice): readonly (readonly Issue[])[] {
  return errors.flatMap((branch) => {
    const [inner] = branch
    const isChoice = inner?.code === 'invalid_union' && inner.path.length === 0
    return isChoice && branch.length === 1 ? branchesOf(inner) : [branch]
  })
}

/** Whether a branch failed because the value is of another kind altogether. */
function isOtherKind(branch: readonly Issue[]): boolean {
  return branch.some(({ code, path }) => {
    return path.length === 0 && (code === 'invalid_type' || code === 'invalid_value')
  })
}

function isUnknownField({ code, path }: Issue): boolean {
  return code === 'unrecognized_keys' && path.length === 0
}

/** A text in the place of a list is not also too long: the wrong kind is enough. */
function isFollowUp(issue: Issue, issues: readonly Issue[]): boolean {
  if (issue.code !== 'too_big' && issue.code !== 'too_small') return false
  return issues.some(({ code, path }) => {
    return code === 'invalid_type' && isDeepStrictEqual(path, issue.path)
  })
}

/** A word of a list that was nearly hit, or `{ header: x }` for `header:x`. */
function meantBy(value: unknown, path: PolicyPath, root: Root): string | undefined {
  if (typeof value !== 'string' || !root.isShown(path)) return undefined
  const nodes = nodesAt(path, root.schema())
  const words = nodes.flatMap((node) => node.enum ?? []).filter((one) => typeof one === 'string')
  const [, field = '', rest = ''] = /^(\w{1,32})\s?[:=]\s?(.{1,64})$/.exec(value) ?? []
  const isField = nodes.some(({ properties = {} }) => Object.hasOwn(properties, field))
  return isField ? `{ ${field}: ${show(rest).slice(1, -1)} }` : nearest(value, words)
}

function allowedBy(issue: Issue): string {
  // A message of the field itself lists the allowed values; others are from the schema library.
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

function fieldsAt(path: PolicyPath, schema: SchemaNode): string[] {
  const nodes = nodesAt(path, schema)
  return [...new Set(nodes.flatMap(({ properties = {} }) => Object.keys(properties)))]
}

/** The schemas of a place, one for each branch of a choice. */
function nodesAt(path: PolicyPath, schema: SchemaNode): readonly SchemaNode[] {
  let nodes: readonly SchemaNode[] = flat(schema)
  for (const part of path) nodes = nodes.flatMap((node) => flat(childOf(node, part)))
  return nodes
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
