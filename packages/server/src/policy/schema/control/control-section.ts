/** The section `control`: where operators' changes for a fleet are kept, and this node in it. */

import { z } from 'zod'
import { fileName, name, secret } from '../field-types.ts'

const endpoint = z
  .string()
  .max(2_048)
  .refine(isEndpoint, { error: 'a URL such as https://10.0.0.1:2379, without a path' })

const prefix = z
  .string()
  .regex(/^\/[A-Za-z0-9_.-]+(\/[A-Za-z0-9_.-]+)*\/$/, {
    error: 'a prefix such as /tidegate/production/',
  })
  .max(200)

export const etcdSection = z.strictObject({
  endpoints: z.array(endpoint).min(1).max(16).describe('Members of the cluster; any one is asked.'),
  prefix: prefix.default('/tidegate/default/').describe('Before every key, one for each fleet.'),
  tls: z
    .strictObject({
      ca: fileName.optional().describe('Trusted CA certificates, instead of those of the system.'),
      cert: fileName.optional().describe('A client certificate, without a Common Name.'),
      key: fileName.optional().describe('The key of the client certificate.'),
    })
    .optional()
    .describe('TLS to etcd, for endpoints with https.'),
  user: z.string().min(1).max(128).optional().describe('The user of etcd.'),
  password: secret.optional().describe('The password of the user.'),
})

const allow = z.strictObject({
  files: z
    .array(fileName)
    .max(100)
    .default([])
    .describe('Files that a published policy may name, such as that of `tiers.lookup.file`.'),
  urls: z
    .array(z.string().max(2_048))
    .max(100)
    .default([])
    .describe('URLs that a published policy may name, such as `tiers.lookup.url`.'),
})

export const controlSection = z
  .strictObject({
    etcd: etcdSection.optional().describe('Follow the policy that is published in etcd.'),
    node: name.optional().describe('The name of this node. Default: host name and process id.'),
    stateFile: fileName
      .optional()
      .describe('Where the last good state is kept, to start without etcd.'),
    allow: allow.prefault({}).describe('Names that a published policy may use; by default none.'),
  })
  .optional()

export type ControlSection = NonNullable<z.output<typeof controlSection>>

function isEndpoint(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return false
  return url.username === '' && url.password === '' && url.pathname === '/' && url.search === ''
}
