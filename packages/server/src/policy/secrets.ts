/** Secrets of a policy: they stand in the environment or in files, and are read when needed. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Secret } from './fields.ts'

/** Returns the secret; throws with the place in the policy where there is none. */
export type ReadSecret = (secret: Secret, path: string) => string

/** Secrets are short; a larger file is another one. */
const SECRET_LENGTH_MAX = 4_096

export function secretReader(
  environment: Readonly<Record<string, string | undefined>>,
  folder: string,
): ReadSecret {
  return (secret, path) => {
    const text = 'env' in secret ? environment[secret.env] : fromFile(resolve(folder, secret.file))
    const place = 'env' in secret ? `environment variable ${secret.env}` : `file ${secret.file}`
    const lack = 'env' in secret ? 'is not set' : 'is empty or cannot be read'
    if (text === undefined || text.length === 0) throw new Error(`${path}: the ${place} ${lack}`)
    if (text.length <= SECRET_LENGTH_MAX) return text
    throw new Error(`${path}: the ${place} has more than ${SECRET_LENGTH_MAX} characters`)
  }
}

function fromFile(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trimEnd()
  } catch {
    return undefined
  }
}
