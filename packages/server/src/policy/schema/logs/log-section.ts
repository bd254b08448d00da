/** The section `log`: what is logged. */

import { z } from 'zod'
import { integer } from '../field-types.ts'

export const logSection = z
  .strictObject({
    level: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
      .default('info')
      .describe('The lowest level that is logged.'),
    sampleAllowed: z
      .number()
      .min(0)
      .max(1)
      .default(0.01)
      .describe('The share of admitted requests that is logged.'),
    linesPerSecondMax: integer(1, 1_000_000)
      .default(200)
      .describe('Refusals and degradations logged per second; further ones are counted.'),
    nodeId: z
      .string()
      .min(1)
      .max(128)
      .default('auto')
      .describe('The name of this node; auto: its host name.'),
  })
  .prefault({})

export type LogSection = z.output<typeof logSection>
