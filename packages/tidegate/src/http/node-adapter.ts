/** Shared by the middlewares over node:http: Express, Koa and node:http itself. */

import type { ServerResponse } from 'node:http'
import type { Guard, GuardOutcome } from './guard.ts'
import type { MaybePromise } from './guard-options.ts'
import { PROBLEM_CONTENT_TYPE, type Problem } from './problem.ts'

/**
 * Evaluates the request, and sets the header fields of its response. Undefined if skipped. Returns
 * a promise only if the guard does.
 */
export function evaluateWith<Request>(
  guard: Guard<Request>,
  request: Request,
  response: ServerResponse,
): MaybePromise<GuardOutcome | undefined> {
  const outcome = guard.evaluate(request)
  if (outcome instanceof Promise) return outcome.then((one) => applied(one, response))
  return applied(outcome, response)
}

function applied(
  outcome: GuardOutcome | undefined,
  response: ServerResponse,
): GuardOutcome | undefined {
  if (outcome === undefined) return undefined
  // Another handler, such as a timeout, may have responded meanwhile.
  if (!response.headersSent) outcome.writeHead(response)
  settleWhenSent(outcome, response)
  return outcome
}

/**
 * Calls `proceed` with the result of `find`, or `fail` with its error: immediately, unless the
 * result is a promise.
 */
export function whenKnown<T>(
  find: () => MaybePromise<T>,
  proceed: (found: T) => void,
  fail: (error: unknown) => void,
): void {
  let found: MaybePromise<T>
  try {
    found = find()
  } catch (error) {
    fail(error)
    return
  }
  if (found instanceof Promise) found.then(proceed, fail)
  else proceed(found)
}

/** A framework takes no error for success, so a function that throws nothing would admit. */
export function errorOf(error: unknown): Error {
  return (error || new Error('a function of the options has thrown no error')) as Error
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
