/** A version for a part of the nodes, for a time. */

import { z } from 'zod'
import { reason } from '../../control/plain-text.ts'
import type { CanaryPlace } from '../../control/versions/version-record.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { duration } from '../../policy/schema/field-types.ts'
import { abortResponse, canaryResponse, versionSummary } from '../responses/policy-responses.ts'
import { ok, type Route, route } from '../route.ts'
import { answer, expectedOf, refusalOf, TEXT_LENGTH_MAX, versionsOf } from './policy-routes.ts'

/** As many names as fit into a small entry. */
const NODES_MAX = 100

const placeName = z.string().regex(/^[\w.-]{1,64}$/, {
  error: 'a name of 1 to 64 letters, digits, dots and dashes',
})

const canaryBody = z.strictObject({
  text: z.string().min(1).max(TEXT_LENGTH_MAX).describe('The whole policy, as YAML.'),
  where: z
    .strictObject({
      region: placeName.optional().describe('The nodes of this region.'),
      nodes: z.array(placeName).min(1).max(NODES_MAX).optional().describe('Nodes by name.'),
      share: z.number().gt(0).max(1).optional().describe('A share, by a hash of the names.'),
    })
    .describe('The nodes that get the version: exactly one of the three.'),
  for: duration.describe('How long it holds, such as 30m.'),
  why: reason,
})

const reasonBody = z.strictObject({ why: reason })

export const canaryRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/policy/canary',
    role: 'read',
    summary: 'The version for a part of the nodes',
    response: canaryResponse,
    async handle(call) {
      return ok({ canary: (await versionsOf(call).canary()) ?? null })
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/policy/canary',
    role: 'admin',
    action: 'policy.canary',
    summary: 'Publish a version for a part of the nodes; If-Match names the live version',
    response: canaryResponse,
    body: canaryBody,
    async handle(call) {
      const versions = versionsOf(call)
      const expected = expectedOf(call)
      const { text, why, for: forMs } = call.body
      const where = placeOf(call.body.where)
      const until = new Date(Date.now() + forMs)
      const request = { ...call.author, text, why, expected, where, until }
      const result = await versions.beginCanary(request)
      if (!result.ok) throw refusalOf(result)
      return ok({ canary: result.canary })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policy/canary/promote',
    role: 'admin',
    action: 'policy.promote',
    summary: 'Make the version of the canary live on all nodes',
    response: versionSummary,
    body: reasonBody,
    async handle(call) {
      const { why } = call.body
      const result = await versionsOf(call).promote({ ...call.author, why })
      if (!result.ok && result.reason === 'unknown') throw noCanary()
      return answer(result)
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policy/canary/abort',
    role: 'operate',
    action: 'policy.abort',
    summary: 'End the canary: its nodes return to the live version',
    response: abortResponse,
    body: reasonBody,
    async handle(call) {
      const { why } = call.body
      const ended = await versionsOf(call).abort({ ...call.author, why })
      if (ended === undefined) throw noCanary()
      return ok({ ended })
    },
  }),
]

function placeOf({ region, nodes, share }: z.output<typeof canaryBody>['where']): CanaryPlace {
  const given = [region, nodes, share].filter((one) => one !== undefined)
  if (given.length !== 1) {
    throw new ApiError(422, 'where: exactly one of region, nodes and share is needed')
  }
  if (region !== undefined) return { region }
  return nodes === undefined ? { share: share ?? 0 } : { nodes }
}

function noCanary(): ApiError {
  return new ApiError(404, 'There is no canary.')
}
