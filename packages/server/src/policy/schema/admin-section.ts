/** The section `admin`: a listener for operators. */

import { z } from 'zod'
import { fileName, listen, secret } from './field-types.ts'

/** Each may do everything that those before it may. */
const role = z.enum(['read', 'operate', 'admin'])

const tls = z.strictObject({
  cert: fileName.describe('The certificate chain, a PEM file.'),
  key: fileName.describe('Its private key, a PEM file.'),
  clientCa: fileName
    .optional()
    .describe('Asks clients for a certificate that one of these has signed, a PEM file.'),
})

export const adminSection = z
  .strictObject({
    listen: listen.describe(
      'The address and port of /status, /health, /ready, /metrics and the admin API. Without a ' +
        'host: 127.0.0.1. Another host than a loopback address needs `tls` for the API.',
    ),
    token: secret
      .optional()
      .describe(
        'The first token, with the role `admin`: at least 32 characters. With it or with ' +
          '`certificates`, the listener serves the admin API.',
      ),
    tls: tls.optional().describe('TLS for the listener.'),
    certificates: z
      .record(z.string().min(1).max(255), role)
      .default({})
      .describe('Roles by an alternative name in the certificate of a client.'),
    hosts: z
      .array(z.string().min(1).max(255))
      .max(64)
      .default([])
      .describe('Names of this listener in `Host`, beside addresses and `localhost`.'),
    state: fileName
      .optional()
      .describe(
        'A file for the overrides, blocks, switch, tokens and audit of this node. Without it, ' +
          'they end with the process.',
      ),
  })
  .optional()

export type AdminSection = z.output<typeof adminSection>
