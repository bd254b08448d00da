/** Sends kept responses and problems on node:http. */

import type { ServerResponse } from 'node:http'
import { REPLAYED_FIELD } from '../idempotency.ts'
import { fieldValues } from '../kept-fields.ts'
import { type IdempotencyProblem, problemFields } from '../problem.ts'
import type { KeptResponse } from '../stored-response.ts'

export function sendKept(response: ServerResponse, kept: KeptResponse): void {
  if (response.headersSent) return
  response.statusCode = kept.status
  for (const [name, value] of fieldValues(kept.headers)) response.setHeader(name, value)
  response.setHeader(REPLAYED_FIELD, 'true')
  if (kept.body.length === 0) response.end()
  else response.end(kept.body)
}

export function sendProblem(response: ServerResponse, problem: IdempotencyProblem): void {
  if (response.headersSent) return
  response.statusCode = problem.status
  for (const [name, value] of Object.entries(problemFields(problem))) {
    response.setHeader(name, value)
  }
  response.end(JSON.stringify(problem))
}
