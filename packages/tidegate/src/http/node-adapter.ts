/** Shared by the middlewares over node:http: Express, Koa and node:http itself. */

import type { ServerResponse } from 'node:http'
import type { Guard, GuardOutcome } from './guard.ts'
import { PROBLEM_CONTENT_TYPE, type Problem } from './problem.ts'

/** Evaluates the request, and sets the header fields of its response. Undefined if skipped. */
export async function evaluateWith<Request>(
  guard: Guard<Request>,
  request: Request,
  response: ServerResponse,
): Promise<GuardOutcome | undefined> {
  const outcome = await guard.evaluate(request)
  if (outcome === undefined) return undefined
  // Another handler, such as a timeout, may have responded meanwhile.
  if (!response.headersSent) outcome.writeHead(response)
  settleWhenSent(outcome, response)
  return outcome
}

/** An aborted response never emits `finish`. */
export function settleWhenSent({ settle }: GuardOutcome, response: ServerResponse): void {
  if (settle !== undefined) response.once('finish', () => settle(response.statusCode))
}

export function sendProblem(response: ServerResponse, problem: Problem): void {
  if (response.headersSent) return
  response.setHeader('Content-Type', PROBLEM_CONTENT_TYPE)
  response.end(JSON.stringify(problem))
}
