/** What the middlewares over node:http share: Express, Koa and node:http itself. */

import type { ServerResponse } from 'node:http'
import type { Guard, Verdict } from './guard.ts'
import { PROBLEM_CONTENT_TYPE, type Problem } from './problem.ts'

/** Judges the request, and sets the header fields of its response. Undefined if it is skipped. */
export async function judgeWith<Request>(
  guard: Guard<Request>,
  request: Request,
  response: ServerResponse,
): Promise<Verdict | undefined> {
  const verdict = await guard.judge(request)
  if (verdict === undefined) return undefined
  // Somebody may have answered while the store was asked, such as a timeout.
  if (!response.headersSent) verdict.writeHead(response)
  settleWhenSent(verdict, response)
  return verdict
}

/** An aborted response never emits `finish`. */
export function settleWhenSent({ settle }: Verdict, response: ServerResponse): void {
  if (settle !== undefined) response.once('finish', () => settle(response.statusCode))
}

export function sendProblem(response: ServerResponse, problem: Problem): void {
  if (response.headersSent) return
  response.setHeader('Content-Type', PROBLEM_CONTENT_TYPE)
  response.end(JSON.stringify(problem))
}
