/** The problems of a policy with their lines: one text for each problem. */

import { maskSecrets } from '../../config/mask-secrets.ts'
import { show } from '../../config/shown-text.ts'
import type { ConfigProblem } from '../../config/source.ts'
import type { ValuePath } from '../../config/yaml/yaml-text.ts'
import { policySchema } from '../schema/policy-schema.ts'
import { isShownField } from './shown-fields.ts'

export type PolicyPath = ValuePath

/** A problem of a value, before its line in the file is known. */
export interface PolicyIssue {
  readonly path: PolicyPath
  /** The problem, as the end of a sentence that begins with the path. */
  readonly text: string
  /** The values that are allowed, which end the text if the problem is about a value. */
  readonly allowed?: string
  /** True if it is about the name of a field and not about its value. */
  readonly isAboutKey?: boolean
}

export interface PolicyProblem extends ConfigProblem {
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly column: number
  /** Such as `limits[2].per`; empty if it is about the file as a whole. */
  readonly path: string
  /** The whole line, such as `tidegate.yaml:14:10 limits[2].per: "5 parsecs" is not allowed; …`. */
  readonly message: string
}

/** More would hide the first, which is often the cause of the others. */
export const PROBLEMS_MAX = 20

/** `isShown` is true if the message may repeat a text or a number. */
export function notAllowed(
  path: PolicyPath,
  value: unknown,
  allowed: string,
  isShown = isShownField(policySchema, path),
): PolicyIssue {
  if (value === undefined) return { path, text: `is missing; allowed: ${allowed}` }
  const isText = typeof value === 'string' || typeof value === 'number'
  const quoted = isText && !isShown ? 'the value' : show(value)
  return { path, text: `${quoted} is not allowed; allowed: ${allowed}`, allowed }
}

/** About the name of a field, which is the end of the path. */
export function nameNotAllowed(path: PolicyPath, allowed: string): PolicyIssue {
  const text = `${show(path.at(-1))} is not allowed; allowed: ${allowed}`
  return { path, text, isAboutKey: true }
}

/** Returns the issue with the value as it was written, before it was converted. */
export function asWritten(issue: PolicyIssue, root: unknown): PolicyIssue {
  const { path, allowed, isAboutKey } = issue
  const written = valueAt(root, path)
  if (allowed === undefined || isAboutKey || typeof written === 'object') return issue
  return written === undefined ? issue : notAllowed(path, written, allowed)
}

export function valueAt(root: unknown, path: PolicyPath): unknown {
  let value = root
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined
    value = (value as Readonly<Record<string | number, unknown>>)[part]
  }
  return value
}

export function problemAt(
  file: string,
  position: { readonly line: number; readonly column: number },
  { path, text }: PolicyIssue,
): PolicyProblem {
  const place = pathText(path)
  const { line, column } = position
  const message = maskSecrets(
    `${file}:${line}:${column} ${place === '' ? '' : `${place}: `}${text}`,
  )
  return { file, line, column, path: place, message }
}

/** Such as `limits[2].per`; names that are no plain word are quoted. */
export function pathText(path: PolicyPath): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else if (!/^[A-Za-z0-9_-]{1,64}$/.test(part)) text += `[${show(part)}]`
    else text += text === '' ? part : `.${part}`
  }
  return text
}
