/** The lines of decisions of a rate limit service with Envoy's files. */

import { refused, type Variables } from './read-variable.ts'

export interface RlsLogSettings {
  /** The share of calls within their limits that is logged. */
  readonly sampleAllowed: number
  /** Lines about other calls; further ones are counted. */
  readonly linesPerSecondMax: number
  /** The secret of digests; undefined for one that is made at the start. */
  readonly digestSecret: string | undefined
}

export const logDefaults: RlsLogSettings = {
  sampleAllowed: 0.01,
  linesPerSecondMax: 200,
  digestSecret: undefined,
}

const SECRET_LENGTH_MIN = 32

export function logSettings(variables: Variables): RlsLogSettings {
  const { sampleAllowed, linesPerSecondMax } = logDefaults
  const digestSecret = variables.text('TIDEGATE_DIGEST_SECRET')
  if (digestSecret !== undefined && digestSecret.length < SECRET_LENGTH_MIN) {
    throw refused('TIDEGATE_DIGEST_SECRET', '***', `at least ${SECRET_LENGTH_MIN} characters`)
  }
  return {
    sampleAllowed: variables.ratio('TIDEGATE_LOG_SAMPLE', sampleAllowed),
    linesPerSecondMax: variables.integer('TIDEGATE_LOG_LINES', linesPerSecondMax, 1, 1_000_000),
    digestSecret,
  }
}
