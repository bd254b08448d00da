/** What is wrong with a policy, and where: one line for each problem. */

export type PolicyPath = readonly (string | number)[]

/** Something wrong in a value, before it is known where that stands in a file. */
export interface PolicyIssue {
  readonly path: PolicyPath
  /** What is wrong, as the end of a sentence that begins with the path. */
  readonly text: string
  /** What the text ends with, where it is about a value that is not allowed. */
  readonly allowed?: string
  /** Whether it is about the name of a field and not about its value. */
  readonly isAboutKey?: boolean
}

export interface PolicyProblem {
  readonly file: string
  /** From 1. */
  readonly line: number
  readonly column: number
  /** Such as `limits[2].per`; empty where it is about the file as a whole. */
  readonly path: string
  /** The whole line, such as `tidegate.yaml:14:10 limits[2].per: "5 parsecs" is not allowed; …`. */
  readonly message: string
}

/** More would hide the first, which is often the cause of the others. */
export const PROBLEMS_MAX = 20

const SHOWN_LENGTH_MAX = 80

export function notAllowed(path: PolicyPath, value: unknown, allowed: string): PolicyIssue {
  if (value === undefined) return { path, text: `is missing; allowed: ${allowed}` }
  const shown = isSecret(path) ? 'the value' : show(value)
  return { path, text: `${shown} is not allowed; allowed: ${allowed}`, allowed }
}

/** The same issue about the value as it was written, before it became what the code works with. */
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
  const message = `${file}:${line}:${column} ${place === '' ? '' : `${place}: `}${text}`
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

/** In one line and without control characters, however long or strange it is. */
export function show(value: unknown): string {
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'a mapping'
  }
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value)
  const shown = text.length > SHOWN_LENGTH_MAX ? `${text.slice(0, SHOWN_LENGTH_MAX)}…` : text
  return shown.replace(/[\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e]/g, '?')
}

/** What somebody wrote where a secret belongs may be one. */
function isSecret(path: PolicyPath): boolean {
  return path.some((part) => typeof part === 'string' && /password|secret|token/i.test(part))
}
