/** What tests of policies share: requests, and policies from their text. */

import { readPolicy } from '../policy/read-policy.ts'
import type { LimitSetSettings } from './limit-settings.ts'
import { anonymous, type Identity, type RequestFacts } from './request-facts.ts'

export interface FactsOptions {
  readonly method?: string
  readonly path?: string
  readonly ip?: string | undefined
  readonly identity?: Identity
  readonly headers?: Readonly<Record<string, string>>
  readonly descriptor?: RequestFacts['descriptor']
}

export function factsOf(options: FactsOptions = {}): RequestFacts {
  const { method = 'GET', path = '/', identity = anonymous, headers = {}, descriptor } = options
  const ip = 'ip' in options ? options.ip : '192.0.2.1'
  return { method, path, ip, identity, header: (name) => headers[name], descriptor }
}

export function policyOf(text: string): LimitSetSettings {
  const result = readPolicy(text, 'test.yaml')
  if (!result.ok) throw new Error(result.problems.map(({ message }) => message).join('\n'))
  return result.document
}
