/** The part `accessLog` of the section `gateway`. */

import { z } from 'zod'
import { fileName } from '../field-types.ts'

const share = z.number().min(0).max(1).default(1)

export const accessLogSection = z
  .strictObject({
    file: fileName
      .optional()
      .describe('A file, which is opened again on SIGUSR1. Default: the standard output.'),
    format: z
      .enum(['json', 'combined'])
      .default('json')
      .describe('JSON lines, or the combined format of Apache and nginx.'),
    addresses: z
      .enum(['raw', 'truncated', 'digest'])
      .default('truncated')
      .describe('Addresses of clients: whole; their networks (/24, IPv6 /48); or keyed digests.'),
    query: z
      .enum(['omitted', 'masked', 'full'])
      .default('omitted')
      .describe('Queries: left out; only the names of their parameters; or whole, with secrets.'),
    sample: share.describe('The share of responses with a status below 400 that is logged.'),
    sampleErrors: share.describe('The share of the other responses that is logged.'),
  })
  .optional()

export type AccessLogSection = NonNullable<z.output<typeof accessLogSection>>
