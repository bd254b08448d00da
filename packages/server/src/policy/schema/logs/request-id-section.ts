/** The part `requestId` of the section `gateway`. */

import { z } from 'zod'
import { headerName } from '../field-types.ts'

/** Fields that frame a message or carry credentials cannot have an id instead. */
const taken: ReadonlySet<string> = new Set([
  ...['host', 'connection', 'content-length', 'transfer-encoding', 'upgrade', 'te', 'expect'],
  ...['authorization', 'cookie', 'set-cookie', 'content-type', 'content-encoding', 'date', 'via'],
  ...['forwarded', 'trailer', 'location'],
])

export const requestIdSection = z
  .strictObject({
    header: headerName
      .refine((name) => !taken.has(name), { error: 'a field such as x-request-id' })
      .default('x-request-id')
      .describe('The header field, of requests and of responses.'),
    accept: z
      .enum(['never', 'trusted', 'always'])
      .default('trusted')
      .describe(
        'Whose ids are taken over: those of proxies in `trustProxy`, of all clients, or none. ' +
          'Others are replaced, as are ids that are not 1 to 128 of A-Z a-z 0-9 . _ ~ : + / = @ -.',
      ),
  })
  .prefault({})

export type RequestIdSection = z.output<typeof requestIdSection>
