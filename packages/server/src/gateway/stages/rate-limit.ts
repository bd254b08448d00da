/**
 * Asks the policy. What it refuses is answered here, before the request costs anybody else
 * anything; what it admits goes on, and its response says what is left.
 */

import { type HeaderDialect, writeHeaders } from 'tidegate/http'
import type { Verdict } from '../../policy/verdict.ts'
import { ListHead } from '../list-head.ts'
import type { LivePolicy } from '../live-policy.ts'
import {
  type GatewayRequest,
  type GatewayResponse,
  type Handler,
  type MaybePromise,
  type Stage,
  whenDone,
} from '../message.ts'
import { refusal } from '../refusal.ts'
import { refusedAnswers } from './refused-answers.ts'

export function rateLimit(policy: LivePolicy, dialect: HeaderDialect): Stage {
  const refusedAnswer = refusedAnswers(dialect)
  const goOn = (request: GatewayRequest, verdict: Verdict, next: Handler) => {
    const { outcome, evaluation, release } = verdict
    request.verdict = verdict
    if (release !== undefined) request.onEnd(release)
    if (outcome === 'admitted') {
      const response = next(request)
      if (evaluation === undefined) return response
      return whenDone(response, (sent) => {
        writeHeaders(new ListHead(sent.headers), evaluation, dialect, Date.now())
        return sent
      })
    }
    if (outcome === 'keyless' || evaluation === undefined) return nameless()
    return refusedAnswer(evaluation)
  }
  return (request, next): MaybePromise<GatewayResponse> => {
    if (request.isExempt) return next(request)
    const verdict = policy.enforcer().judge(request)
    if (!(verdict instanceof Promise)) return goOn(request, verdict, next)
    const startMs = performance.now()
    // To resolve a promise with the next one would take turns of its own.
    return new Promise((resolve, reject) => {
      const onVerdict = (found: Verdict) => {
        request.judgedMs = performance.now() - startMs
        try {
          const response = goOn(request, found, next)
          if (response instanceof Promise) response.then(resolve, reject)
          else resolve(response)
        } catch (error) {
          reject(error)
        }
      }
      verdict.then(onVerdict, reject)
    })
  }
}

function nameless(): GatewayResponse {
  // https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1
  return refusal(401, 'This request needs to say who sends it.', ['www-authenticate', 'ApiKey'])
}
