/** The routes that the console needs beside those of programs. */

import { z } from 'zod'
import { isAtLeast } from '../../control/roles.ts'
import { ApiError } from '../../http-api/api-error.ts'
import { type ConsoleView, clientKinds } from '../console/console-view.ts'
import { EventStreams } from '../console/event-streams.ts'
import { FirstTimes } from '../console/first-times.ts'
import {
  clientResponse,
  historyResponse,
  limitsResponse,
  whatIfResponse,
} from '../responses/console-responses.ts'
import { nowResponse } from '../responses/now-response.ts'
import { type AdminContext, type Call, ok, type Route, route } from '../route.ts'

/** The role from which keys are shown. */
const KEYS_ROLE = 'operate'

/** The longest text that can be published. */
const TEXT_LENGTH_MAX = 512 * 1_024

const clientBody = z.strictObject({
  kind: z.enum(clientKinds),
  value: z.string().min(1).max(256).describe('The address, or the id of the API key or user.'),
  method: z.string().max(32).default('GET'),
  path: z.string().max(4_096).default('/').describe('Limits may be for some paths only.'),
})

const whatIfBody = z.strictObject({
  text: z.string().min(1).max(TEXT_LENGTH_MAX).describe('The whole policy, as YAML.'),
})

/** A page looks up again every few seconds, which is one look-up for the audit. */
const lookUps = new FirstTimes()

/** The streams of a service. */
const streamsOf = new WeakMap<ConsoleView, EventStreams>()

export const consoleRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/stream',
    role: 'read',
    summary: 'Server-sent events: the state of this node, then a tick every second',
    type: 'text/event-stream',
    async handle({ request, caller, context, author }) {
      const isRaw = isAtLeast(caller.role, KEYS_ROLE)
      const streams = openStreams(viewOf(context))
      const { cookie } = request.headers
      const lastEventId = request.headers['last-event-id']?.toString()
      const isAllowed = () =>
        caller.kind === 'session'
          ? context.sessions.isOpen(cookie, Date.now())
          : context.isAllowed(caller)
      const body = await streams.open({ isRaw, isAllowed, lastEventId })
      // A page that comes back reads on, which is not another look.
      if (isRaw && lastEventId === undefined) {
        const target = { type: 'top' }
        await context.changes
          .note({ ...author, action: 'top.read', target, result: 'done' })
          // While the control store is away, the page still shows the traffic.
          .catch(() => undefined)
      }
      const headers = { 'x-accel-buffering': 'no' }
      return { status: 200, type: 'text/event-stream', body, headers }
    },
  }),
  route({
    method: 'GET',
    path: '/v1/now',
    role: 'read',
    summary: 'The last second of this node, the keys that are refused most, nodes and changes',
    response: nowResponse,
    async handle({ caller, context, author }) {
      const isRaw = isAtLeast(caller.role, KEYS_ROLE)
      const { history: _, ...now } = await viewOf(context).snapshot(isRaw)
      if (isRaw && lookUps.isNew(`${caller.id} now`, Date.now())) {
        const target = { type: 'top' }
        await context.changes.note({ ...author, action: 'top.read', target, result: 'done' })
      }
      return ok(now)
    },
  }),
  route({
    method: 'GET',
    path: '/v1/limits',
    role: 'read',
    summary: 'The limits of the policy in force',
    response: limitsResponse,
    handle: async ({ context }) => ok({ limits: viewOf(context).limits() }),
  }),
  route({
    method: 'GET',
    path: '/v1/limits/history',
    role: 'read',
    summary: 'The decisions of one limit over the last 15 minutes',
    query: ['name'],
    response: historyResponse,
    async handle({ context, request }) {
      const name = request.query.get('name') ?? ''
      return ok({ history: viewOf(context).limitHistory(name) ?? null })
    },
  }),
  route({
    method: 'POST',
    path: '/v1/clients/look-up',
    role: 'operate',
    action: 'client.read',
    summary: 'The limits of one client: used, left, overrides, blocks and its last refusals',
    body: clientBody,
    response: clientResponse,
    async handle({ body, context, author }) {
      const found = await viewOf(context).client(body)
      const keyHash = context.digest(body.value)
      const target = { type: 'client', id: body.kind, keyHash }
      if (lookUps.isNew(`${author.actor.id} ${keyHash}`, Date.now())) {
        await context.changes.note({ ...author, action: 'client.read', target, result: 'done' })
      }
      return ok(found)
    },
  }),
  route({
    method: 'POST',
    path: '/v1/policy/what-if',
    role: 'read',
    summary: 'What a policy would have done to the traffic of the last minutes',
    body: whatIfBody,
    response: whatIfResponse,
    async handle({ body, caller, context }: Call<z.output<typeof whatIfBody>>) {
      const isRaw = isAtLeast(caller.role, KEYS_ROLE)
      return ok(await viewOf(context).whatIf(body.text, isRaw))
    },
  }),
]

/** Ends the streams of a service that stops, which would hold its listener open. */
export function endStreams(view: ConsoleView): void {
  streamsOf.get(view)?.close()
}

function openStreams(view: ConsoleView): EventStreams {
  const known = streamsOf.get(view) ?? new EventStreams(view)
  streamsOf.set(view, known)
  return known
}

function viewOf({ console }: AdminContext): ConsoleView {
  if (console !== undefined) return console
  throw new ApiError(404, 'A service with files of Envoy has no console.')
}
