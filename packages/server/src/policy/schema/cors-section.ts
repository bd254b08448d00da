/**
 * The section `cors`: which pages of other origins may read responses, and which methods and header
 * fields they may use. https://fetch.spec.whatwg.org/#http-cors-protocol
 */

import { z } from 'zod'
import { ANY_ORIGIN, isOriginPattern } from '../../limits/match/origin-pattern.ts'
import { harmless } from '../problems/shown-fields.ts'
import { duration, headerName, method } from './field-types.ts'

/** Every response can carry the names of all fields, so the list must stay short. */
const NAMES_MAX = 64

const originError =
  'an origin as browsers send it: https://app.example.com, https://*.example.com, ' +
  'http://localhost:3000, http://localhost:*, or * for every origin'

const origin = harmless(
  z
    .string()
    .max(255)
    .toLowerCase()
    .refine(isOriginPattern, { error: originError })
    .meta({ examples: ['https://app.example.com', 'https://*.example.com', ANY_ORIGIN] }),
)

export const corsSection = z
  .strictObject({
    origins: z
      .array(origin)
      .min(1)
      .max(256)
      .describe('Pages that may read responses. `*` in a host stands for one or more labels.'),
    methods: z
      .array(method)
      .min(1)
      .max(32)
      .default(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
      .describe('Methods that such pages may use.'),
    headers: z
      .array(headerName)
      .max(NAMES_MAX)
      .default(['*'])
      .describe('Request header fields that such pages may send; `*`, the default, allows all.'),
    exposeHeaders: z
      .array(headerName)
      .max(NAMES_MAX)
      .default([])
      .describe(
        'Response header fields that such pages may read, besides `Retry-After` and the rate ' +
          'limit fields, which they always may.',
      ),
    credentials: z
      .boolean()
      .default(false)
      .describe('Lets browsers send cookies and client certificates.'),
    maxAge: duration
      .default(600_000)
      .describe('How long a browser caches the response to a preflight.'),
  })
  .refine(({ credentials, origins }) => !(credentials && origins.includes(ANY_ORIGIN)), {
    path: ['credentials'],
    error: 'false with the origin *, because browsers refuse both together; list the origins',
  })
  .refine(({ credentials, exposeHeaders }) => !(credentials && exposeHeaders.includes('*')), {
    path: ['exposeHeaders'],
    error: 'names without * if credentials is true, because browsers then take * for a name',
  })

export type CorsSection = z.output<typeof corsSection>
