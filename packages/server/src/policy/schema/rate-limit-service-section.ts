/** The section `rateLimitService` of a policy: decisions over gRPC for Envoy. */

import { z } from 'zod'
import { fileName, listen } from './field-types.ts'

const tls = z
  .strictObject({
    cert: fileName.describe('The certificate chain, a PEM file.'),
    key: fileName.describe('Its private key, a PEM file.'),
    clientCa: fileName
      .optional()
      .describe('Clients need a certificate that one of these has signed, a PEM file.'),
    clientNames: z
      .array(z.string().min(1).max(255))
      .max(64)
      .default([])
      .describe('The certificate of a client needs one of these names.'),
  })
  .describe('TLS on the gRPC port. Changed files apply to the next handshake.')

export const rateLimitServiceSection = z
  .strictObject({
    listen: listen.describe('The gRPC listener. Without a host: 0.0.0.0.'),
    tls: tls.optional(),
    http: listen
      .optional()
      .describe('A listener for `/json` and `/healthcheck`. Without a host: 0.0.0.0.'),
    debug: listen
      .optional()
      .describe('A listener for `/rlconfig`, `/stats`, `/metrics`. Without a host: 127.0.0.1.'),
  })
  .describe('The rate limit service for Envoy, with the limits of this policy.')

export type RateLimitServiceSection = z.output<typeof rateLimitServiceSection>
