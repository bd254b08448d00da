/** The section `digests`: the secret behind the digests of clients and keys. */

import { z } from 'zod'
import { secret } from '../field-types.ts'

export const digestsSection = z
  .strictObject({
    secret: secret.describe(
      'At least 32 random characters. Nodes with the same secret have the same digests in logs ' +
        'and top lists. Needs a restart.',
    ),
  })
  .optional()
