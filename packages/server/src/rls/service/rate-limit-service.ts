/**
 * The rate limit service: from a request to an answer, for both of its doors. Whatever happens, a
 * call ends with an answer or a status that says why there is none.
 */

import type { Decision } from 'tidegate'
import type { Overload } from '../../overload/overload.ts'
import type { RlsConfig } from '../config/rls-config.ts'
import { type RpcMethod, timeoutMs } from '../grpc-methods.ts'
import { type RpcCall, rpcStatus } from '../rpc.ts'
import { ProtoWriter } from '../wire/proto-writer.ts'
import { InvalidRequest, type RateLimitRequest } from '../wire/rate-limit-messages.ts'
import { readRequest } from '../wire/read-request.ts'
import { writeResponse } from '../wire/write-response.ts'
import { type Answer, type AnswerSettings, answer } from './answer.ts'
import type { Judge } from './judge.ts'
import { type Plan, Planner, type PlanSettings } from './plan.ts'
import { PlanCache } from './plan-cache.ts'
import type { ResponseTimes } from './response-times.ts'
import type { Stats } from './stats.ts'

export interface ServiceSettings extends PlanSettings, AnswerSettings {}

export interface ServiceParts {
  readonly judge: Judge
  readonly stats: Stats
  readonly times: ResponseTimes
  readonly settings: ServiceSettings
  /** The controller of this process. */
  readonly overload: Overload
  /** Told of what should not happen. */
  readonly onError: (error: unknown) => void
}

export const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

const NOT_CONFIGURED = 'no rate limit configuration loaded'

const OVERLOADED = 'the service is overloaded'

/** A call has no priority: all are shed alike, and as soon as the loop is late. */
const PRIORITY = 'sheddable'

const STORE_FAILED = 'the store of the counters does not answer'

/** What a door tells whoever asked: an answer, or which status and why. */
export type Outcome =
  | Exclude<Answer, 'store-failed'>
  | { readonly status: number; readonly text: string }

export class RateLimitService {
  readonly #parts: ServiceParts
  readonly #writer = new ProtoWriter()
  readonly #plans = new PlanCache()
  #planner: Planner | undefined

  constructor(parts: ServiceParts) {
    this.#parts = parts
  }

  configure(config: RlsConfig): void {
    const { stats, settings } = this.#parts
    this.#planner = new Planner(config, stats, settings)
    this.#plans.clear()
  }

  /** The method for gRPC. */
  readonly shouldRateLimit: RpcMethod = (call, start, end) => {
    const { judge, stats, times, overload } = this.#parts
    const startMs = performance.now()
    stats.totalRequests++
    if (!overload.isCalm && !overload.admits(PRIORITY)) {
      stats.shedCalls++
      call.finish(rpcStatus.unavailable, OVERLOADED)
      return
    }
    try {
      const plan = this.#planOf(call.bytes, start, end)
      if (!plan.isDomainKnown) stats.domainNotFound(plan.request.domain)
      const decisions = judge.judge(plan)
      if (decisions instanceof Promise) {
        overload.enter()
        decisions.then(
          (decided) => {
            overload.leave()
            this.#reply(call, plan, decided, startMs)
          },
          (error) => {
            overload.leave()
            this.#fail(call, error)
          },
        )
      } else this.#reply(call, plan, decisions, startMs)
    } catch (error) {
      this.#fail(call, error)
      times.add(performance.now() - startMs)
    }
  }

  /** For requests that do not come as bytes. */
  async ask(request: RateLimitRequest): Promise<Outcome> {
    const { judge, stats, settings, overload } = this.#parts
    stats.totalRequests++
    if (!overload.isCalm && !overload.admits(PRIORITY)) {
      stats.shedCalls++
      return { status: rpcStatus.unavailable, text: OVERLOADED }
    }
    overload.enter()
    try {
      const plan = this.#plannerOr().plan(request)
      if (!plan.isDomainKnown) stats.domainNotFound(plan.request.domain)
      const answered = answer(plan, await judge.judge(plan), settings, stats)
      if (answered !== 'store-failed') return answered
      stats.storeErrors++
      return { status: rpcStatus.unavailable, text: STORE_FAILED }
    } catch (error) {
      return this.#statusOf(error)
    } finally {
      overload.leave()
    }
  }

  #planOf(bytes: Buffer, start: number, end: number): Plan {
    const planner = this.#plannerOr()
    const key = this.#plans.keyOf(bytes, start, end)
    const known = key === undefined ? undefined : this.#plans.get(key)
    if (known !== undefined) return known
    const plan = planner.plan(readRequest(bytes, start, end))
    if (key !== undefined) this.#plans.set(key, plan)
    return plan
  }

  #plannerOr(): Planner {
    if (this.#planner === undefined) throw new NotConfigured(NOT_CONFIGURED)
    return this.#planner
  }

  #reply(call: RpcCall, plan: Plan, decisions: readonly Decision[], startMs: number): void {
    const { settings, stats, times } = this.#parts
    const answered = answer(plan, decisions, settings, stats)
    const tookMs = performance.now() - startMs
    times.add(tookMs)
    if (answered === 'store-failed') {
      stats.storeErrors++
      call.finish(rpcStatus.unavailable, STORE_FAILED)
      return
    }
    if (call.timeout !== '' && tookMs > (timeoutMs(call.timeout) ?? tookMs)) {
      call.finish(rpcStatus.deadlineExceeded, 'the deadline of the call is over')
      return
    }
    writeResponse(this.#writer, answered)
    call.reply(this.#writer.bytes, this.#writer.length)
  }

  #fail(call: RpcCall, error: unknown): void {
    const { status, text } = this.#statusOf(error)
    call.finish(status, text)
  }

  #statusOf(error: unknown): { status: number; text: string } {
    const { stats, onError } = this.#parts
    stats.serviceErrors++
    if (error instanceof InvalidRequest) {
      return { status: rpcStatus.invalidArgument, text: error.message }
    }
    if (error instanceof NotConfigured) {
      return { status: rpcStatus.unavailable, text: error.message }
    }
    onError(error)
    return { status: rpcStatus.internal, text: 'an error that is not the request’s' }
  }
}

class NotConfigured extends Error {
  override readonly name = 'NotConfigured'
}
