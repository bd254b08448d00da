/** The section `decisionApi` of a policy: decisions over HTTP for other languages. */

import { z } from 'zod'
import { byteSize, integer, listen, secret } from './field-types.ts'

export const decisionApiSection = z
  .strictObject({
    listen: listen.describe('The address and port. Without a host: 127.0.0.1.'),
    token: secret.describe('The token that callers send as `Authorization: Bearer …`.'),
    batchMax: integer(1, 1_000).default(100).describe('The most checks in one request.'),
    bodyBytesMax: byteSize.default(262_144).describe('The largest request body.'),
  })
  .describe('The decision API: `POST /v1/check`.')
