/** The policy in force, and its versions. A node that follows a file has no versions. */

import { z } from 'zod'
import { reason } from '../../control/plain-text.ts'
import type { PolicyVersions, PublishResult } from '../../control/policy-versions.ts'
import { ApiError } from '../../http-api/api-error.ts'
import type { ApiResponse } from '../../http-api/messages.ts'
import {
  diffResponse,
  policyResponse,
  versionResponse,
  versionSummary,
  versionsResponse,
} from '../responses/policy-responses.ts'
import { type Call, ok, type Route, route } from '../route.ts'

/** The body of a request has at most as many bytes. */
export const TEXT_LENGTH_MAX = 512 * 1_024

const VERSIONS_MAX = 200

const publishBody = z.strictObject({
  text: z.string().min(1).max(TEXT_LENGTH_MAX).describe('The whole policy, as YAML.'),
  why: reason,
})

const rollbackBody = z.strictObject({
  to: z.int().min(1).describe('The version whose text is published again.'),
  why: reason,
})

export const policyRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/policy',
    role: 'read',
    summary: 'The policy in force; its text, if it has versions',
    response: policyResponse,
    async handle({ context }) {
      const current = await context.versions?.current()
      const headers = current === undefined ? undefined : { ETag: `"${current.version}"` }
      return ok({ live: context.policy(), current: current ?? null }, headers)
    },
  }),
  route({
    method: 'PUT',
    path: '/v1/policy',
    role: 'admin',
    action: 'policy.publish',
    summary: 'Publish a version; If-Match names the version that it replaces',
    response: versionSummary,
    body: publishBody,
    async handle(call) {
      const versions = versionsOf(call)
      const expected = expectedOf(call)
      const { text, why } = call.body
      return answer(await versions.publish({ ...call.author, text, why, expected }))
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policy/versions',
    role: 'read',
    summary: 'The versions of the policy, the latest first',
    response: versionsResponse,
    query: ['before'],
    async handle(call) {
      const before = call.request.query.get('before')
      const versions = versionsOf(call)
      const found = await versions.history(
        VERSIONS_MAX,
        before === null ? undefined : versionOf(before, 'before'),
      )
      return ok({ versions: found })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policy/versions/{version}',
    role: 'read',
    summary: 'One version with its text',
    response: versionResponse,
    async handle(call) {
      const versions = versionsOf(call)
      const { version = '' } = call.request.params
      const found = await versions.version(versionOf(version, 'version'))
      if (found === undefined) throw new ApiError(404, 'There is no such version.')
      return ok(found, { ETag: `"${found.version}"` })
    },
  }),
  route({
    method: 'GET',
    path: '/v1/policy/diff',
    role: 'read',
    summary: 'The difference of two versions',
    response: diffResponse,
    query: ['from', 'to'],
    async handle(call) {
      const versions = versionsOf(call)
      const { query } = call.request
      const from = versionOf(query.get('from') ?? '', 'from')
      const to = versionOf(query.get('to') ?? '', 'to')
      const diff = await versions.diff(from, to)
      if (diff === undefined) throw new ApiError(404, 'There is no such version.')
      return ok({ from, to, diff })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policy/rollback',
    role: 'operate',
    action: 'policy.rollback',
    summary: 'Publish the text of an earlier version again',
    response: versionSummary,
    body: rollbackBody,
    async handle(call) {
      const versions = versionsOf(call)
      const expected = expectedOf(call)
      const { to, why } = call.body
      return answer(await versions.rollback({ ...call.author, to, why, expected }))
    },
  }),
]

export function versionsOf({ context }: Call<unknown>): PolicyVersions {
  if (context.versions !== undefined) return context.versions
  const advice = 'change the file, or start the node with a source that has versions'
  throw new ApiError(409, `This node follows a file, which has no versions: ${advice}.`)
}

/** https://www.rfc-editor.org/rfc/rfc6585#section-3 */
export function expectedOf({ request }: Call<unknown>): number {
  const field = request.headers['if-match']
  if (field === undefined) {
    throw new ApiError(428, 'Send If-Match with the version that you have seen, such as "42".')
  }
  return versionOf(field.replace(/^"(.*)"$/, '$1'), 'If-Match', 0)
}

function versionOf(text: string, place: string, min = 1): number {
  const version = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN
  if (version >= min) return version
  throw new ApiError(400, `${place}: allowed is the number of a version`)
}

export function answer(result: PublishResult): ApiResponse {
  if (result.ok) return ok(result.published, { ETag: `"${result.published.version}"` })
  throw refusalOf(result)
}

/** The error for a version that was not written. */
export function refusalOf(result: Exclude<PublishResult, { readonly ok: true }>): ApiError {
  if (result.reason === 'unknown') return new ApiError(404, 'There is no such version.')
  if (result.reason === 'invalid') {
    const { problems } = result
    return new ApiError(422, 'The policy has problems.', {}, { problems })
  }
  const { current, diff } = result
  const by = current === undefined ? '' : ` Version ${current.version} is by ${current.by}.`
  const headers = current === undefined ? {} : { ETag: `"${current.version}"` }
  return new ApiError(412, `Another version came first.${by}`, headers, { current, diff })
}
