/** Reads secrets from the environment or from files, when they are needed. */

import { resolve } from 'node:path'
import { readSmallFile } from './read-file.ts'

export type Secret = { readonly env: string } | { readonly file: string }

/** Returns the secret. Throws if there is none, with its place in the policy. */
export type ReadSecret = (secret: Secret, path: string) => string

/** Secrets are short; a larger file was named by mistake. */
const SECRET_LENGTH_MAX = 4_096

export function secretReader(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): ReadSecret {
  return (secret, path) => {
    const text = 'env' in secret ? environment[secret.env] : fromFile(resolve(folder, secret.file))
    const place = 'env' in secret ? `environment variable ${variableName(secret.env)}` : 'file'
    const lack = 'env' in secret ? 'is not set' : 'is empty or cannot be read'
    if (text === undefined || text.length === 0) throw new Error(`${path}: the ${place} ${lack}`)
    if (text.length <= SECRET_LENGTH_MAX) return text
    throw new Error(`${path}: the ${place} has more than ${SECRET_LENGTH_MAX} characters`)
  }
}

/** Names are in capitals by convention; another text may be the secret itself, by mistake. */
function variableName(name: string): string {
  return /^[A-Z][A-Z0-9_]*$/.test(name) ? name : 'that it names'
}

function fromFile(file: string): string | undefined {
  try {
    return readSmallFile(file).toString('utf8').trimEnd()
  } catch {
    return undefined
  }
}
