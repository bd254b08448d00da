/** The section `routes`: which requests go to which upstream, and how they are changed. */

import { z } from 'zod'
import { priorities } from '../../limits/priority.ts'
import { corsSection } from './cors-section.ts'
import {
  headerName,
  headerValue,
  hostPattern,
  method,
  name,
  ownPath,
  pathPattern,
} from './field-types.ts'

/** Fields that frame a message or concern one connection, which a route must not change. */
const framingNames: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'content-length'],
  ...['upgrade', 'te', 'trailer', 'expect'],
])

const changedName = headerName.refine((field) => !framingNames.has(field), {
  error: `none of ${[...framingNames].join(', ')}`,
})

const headerChanges = z.strictObject({
  set: z.record(changedName, headerValue).default({}).describe('Fields to set or replace.'),
  remove: z.array(changedName).max(64).default([]).describe('Fields to remove.'),
})

const route = z.strictObject({
  match: z
    .strictObject({
      path: pathPattern.optional().describe('A pattern such as /v1/**.'),
      methods: z
        .array(method)
        .min(1)
        .max(32)
        .optional()
        .describe('Any of these; GET includes HEAD.'),
      host: hostPattern
        .optional()
        .describe('The Host without its port, or `*.example.com` for all subdomains.'),
    })
    .prefault({})
    .describe('The requests of the route; without it, all.'),
  upstream: name.describe('The name of an upstream.'),
  priority: z
    .enum(priorities)
    .optional()
    .describe('The order in which requests are shed in an overload. Default: `normal`.'),
  rewrite: z
    .strictObject({
      stripPrefix: ownPath.optional().describe('Removed from the start of the path.'),
      addPrefix: ownPath.optional().describe('Added to the start of the path.'),
    })
    .optional()
    .describe('Changes to the path that the upstream receives.'),
  cors: z
    .union([z.literal(false), corsSection])
    .optional()
    .describe('Replaces the section `cors`; false leaves CORS to the upstream.'),
  requestHeaders: headerChanges
    .optional()
    .describe('Changes to the request that the upstream receives.'),
  responseHeaders: headerChanges
    .optional()
    .describe('Changes to the response that the client receives.'),
})

export const routesSection = z
  .array(route)
  .max(1_024)
  .default([])
  .describe('The first match decides. Without routes, all requests go to the only upstream.')

export type RouteSection = z.output<typeof route>
export type RoutesSection = z.output<typeof routesSection>
export type HeaderChanges = z.output<typeof headerChanges>
