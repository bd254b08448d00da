/**
 * The rate limit service: from a request to a response, over gRPC and over HTTP. Every call ends
 * with a response, or with a status that gives the reason for its absence.
 */

import type { Callback, Decision, MaybePromise } from 'tidegate'
import type { ChargeGroups } from '../../limits/charging/charge-group.ts'
import {
  type DecisionEvent,
  decisionEvents,
  type PlannedCharge,
} from '../../limits/charging/charge-plan.ts'
import type { Overload } from '../../overload/overload.ts'
import { type RpcMethod, timeoutMs } from '../grpc-methods.ts'
import { type RpcCall, rpcStatus } from '../rpc.ts'
import { readRequest } from '../wire/decode-request.ts'
import { writeResponse } from '../wire/encode-response.ts'
import { ProtoWriter } from '../wire/proto-writer.ts'
import {
  InvalidRequest,
  type RateLimitRequest,
  type RateLimitResponse,
} from '../wire/rate-limit-messages.ts'
import { countDecision } from './count-decision.ts'
import { PlanCache } from './plan-cache.ts'
import { type CallOutcome, callOutcome, type ResponseSettings, responseOf } from './response.ts'
import type { ResponseTimes } from './response-times.ts'
import type { RlsPlan, RlsPlanner, ShownLimit } from './rls-plan.ts'
import type { Stats } from './stats.ts'
import { type RlsTracing, TracedRls } from './traced-call.ts'

export interface ServiceSettings extends ResponseSettings {
  readonly nearLimitRatio: number
}

export interface ServiceParts {
  readonly groups: ChargeGroups
  readonly stats: Stats
  readonly times: ResponseTimes
  readonly settings: ServiceSettings
  /** The overload controller of this process. */
  readonly overload: Overload
  /** Receives every call that was decided, with the decisions of its limits. */
  readonly onCall?: CallListener | undefined
  /** Without it, no call is traced. */
  readonly traces?: RlsTracing | undefined
  /** Receives errors that are bugs. */
  readonly onError: (error: unknown) => void
}

/** `tookMs` is the time until the decisions were there. Called before the response is made. */
export type CallListener = (
  outcome: CallOutcome,
  events: readonly DecisionEvent<ShownLimit>[],
  tookMs: number,
  request: RateLimitRequest,
  ids: CallIds,
  /** The trace of a sampled call. */
  traceId: string | undefined,
) => void

/** The headers of a call as received, or empty texts. */
export type CallIds = Pick<RpcCall, 'requestId' | 'traceparent'>

const noIds: CallIds = { requestId: '', traceparent: '' }

export const SHOULD_RATE_LIMIT = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

const NOT_CONFIGURED = 'no rate limit configuration loaded'

const OVERLOADED = 'the service is overloaded'

const STORE_FAILED = 'the store of the counters does not answer'

/** Calls have no priorities: all of them are shed as soon as the event loop is late. */
const PRIORITY = 'sheddable'

/** A status of gRPC with its reason. */
interface Refusal {
  readonly status: number
  readonly text: string
}

export class RateLimitService {
  readonly #parts: ServiceParts
  readonly #writer = new ProtoWriter()
  readonly #plans = new PlanCache()
  #planner: RlsPlanner | undefined

  constructor(parts: ServiceParts) {
    this.#parts = parts
  }

  /** Plans all further calls by another configuration. */
  use(planner: RlsPlanner): void {
    this.#planner = planner
    this.#plans.clear()
  }

  /** The gRPC method. */
  readonly shouldRateLimit: RpcMethod = (call, start, end) => {
    const { stats, times } = this.#parts
    const startMs = performance.now()
    if (!this.#admits()) {
      call.finish(rpcStatus.unavailable, OVERLOADED)
      return
    }
    try {
      const plan = this.#planOf(call.bytes, start, end)
      const traced = this.#parts.traces && this.#trace(call, this.#parts.traces)
      if (traced !== undefined) {
        this.#later(call, this.#decideLater(plan, traced), (decided) => {
          this.#reply(call, decided.plan, decided.decisions, startMs, traced)
        })
        return
      }
      if (plan instanceof Promise) {
        this.#later(call, this.#decideLater(plan), (decided) => {
          this.#reply(call, decided.plan, decided.decisions, startMs)
        })
        return
      }
      if (!plan.isDomainKnown) stats.domainNotFound(plan.request.domain)
      const [charge] = plan.charges
      if (charge !== undefined && plan.charges.length === 1 && !charge.isNegative) {
        this.#chargeOne(call, plan, charge, startMs)
        return
      }
      const decisions = this.#parts.groups.charge(plan.charges)
      if (decisions instanceof Promise) {
        this.#later(call, decisions, (decided) => this.#reply(call, plan, decided, startMs))
      } else this.#reply(call, plan, decisions, startMs)
    } catch (error) {
      this.#fail(call, error)
      times.add(performance.now() - startMs)
    }
  }

  /** Decides a request that is not encoded. Never rejects. */
  async ask(request: RateLimitRequest, ids = noIds): Promise<RateLimitResponse | Refusal> {
    const { stats, overload } = this.#parts
    if (!this.#admits()) return { status: rpcStatus.unavailable, text: OVERLOADED }
    overload.enter()
    const startMs = performance.now()
    try {
      const { plan, decisions } = await this.#decideLater(this.#plannerOr().plan(request))
      const response = this.#responseOf(plan, decisions, performance.now() - startMs, ids)
      if (response !== undefined) return response
      stats.storeErrors++
      return { status: rpcStatus.unavailable, text: STORE_FAILED }
    } catch (error) {
      return this.#statusOf(error)
    } finally {
      overload.leave()
    }
  }

  #admits(): boolean {
    const { stats, overload } = this.#parts
    stats.totalRequests++
    if (overload.isCalm || overload.admits(PRIORITY)) return true
    stats.shedCalls++
    return false
  }

  async #decideLater(planning: MaybePromise<RlsPlan>, traced?: TracedRls) {
    const { groups, stats } = this.#parts
    try {
      const plan = await planning
      if (!plan.isDomainKnown) stats.domainNotFound(plan.request.domain)
      const charging = traced?.charge(groups, plan) ?? groups.charge(plan.charges)
      return { plan, decisions: await charging }
    } catch (error) {
      traced?.end(rpcStatus.internal)
      throw error
    }
  }

  /** Undefined if the call is not sampled. */
  #trace({ traceparent }: RpcCall, traces: RlsTracing): TracedRls | undefined {
    // Envoy is trusted: its configuration decides which requests are traced.
    const begun = traces.tracing.begin(traceparent === '' ? undefined : traceparent, true)
    return begun.isSampled ? new TracedRls(traces, begun) : undefined
  }

  /** Most calls have a single counter: this way makes one object instead of three promises. */
  #chargeOne(call: RpcCall, plan: RlsPlan, charge: PlannedCharge, startMs: number): void {
    const { groups, overload } = this.#parts
    const decision = groups.chargeOne(charge, new PendingCall(this.#settle, call, plan, startMs))
    if (decision === undefined) overload.enter()
    else this.#reply(call, plan, [decision], startMs)
  }

  readonly #settle: Settle = ({ call, plan, startMs }, decision, error) => {
    this.#parts.overload.leave()
    if (decision === undefined) this.#fail(call, error)
    else this.#reply(call, plan, [decision], startMs)
  }

  #later<T>(call: RpcCall, pending: Promise<T>, reply: (value: T) => void): void {
    const { overload } = this.#parts
    overload.enter()
    pending.then(
      (value) => {
        overload.leave()
        reply(value)
      },
      (error) => {
        overload.leave()
        this.#fail(call, error)
      },
    )
  }

  #planOf(bytes: Buffer, start: number, end: number): MaybePromise<RlsPlan> {
    const planner = this.#plannerOr()
    const key = this.#plans.keyOf(bytes, start, end)
    const known = key === undefined ? undefined : this.#plans.get(key)
    if (known !== undefined) return known
    const plan = planner.plan(readRequest(bytes, start, end))
    if (key !== undefined && 'isLasting' in plan && plan.isLasting) this.#plans.set(key, plan)
    return plan
  }

  #plannerOr(): RlsPlanner {
    if (this.#planner === undefined) throw new NotConfigured(NOT_CONFIGURED)
    return this.#planner
  }

  /** Undefined if the call fails because a store did not answer. */
  #responseOf(
    plan: RlsPlan,
    decisions: readonly Decision[],
    tookMs: number,
    ids: CallIds,
    traceId?: string,
  ): RateLimitResponse | undefined {
    const { settings, stats, onCall } = this.#parts
    const events = decisionEvents(plan, decisions)
    for (const event of events) countDecision(event, settings.nearLimitRatio)
    const outcome = callOutcome(plan, events)
    onCall?.(outcome, events, tookMs, plan.request, ids, traceId)
    if (outcome === 'store-failed' && !settings.isShadowMode) return undefined
    if (outcome === 'over' && settings.isShadowMode) stats.globalShadowMode++
    return responseOf(plan, events, outcome, settings)
  }

  #reply(
    call: RpcCall,
    plan: RlsPlan,
    decisions: readonly Decision[],
    startMs: number,
    traced?: TracedRls,
  ): void {
    const { stats, times } = this.#parts
    const tookMs = performance.now() - startMs
    const response = this.#responseOf(plan, decisions, tookMs, call, traced?.traceId)
    times.add(tookMs)
    traced?.end(response === undefined ? rpcStatus.unavailable : rpcStatus.ok)
    if (response === undefined) {
      stats.storeErrors++
      call.finish(rpcStatus.unavailable, STORE_FAILED)
      return
    }
    if (call.timeout !== '' && tookMs > (timeoutMs(call.timeout) ?? tookMs)) {
      call.finish(rpcStatus.deadlineExceeded, 'the deadline of the call has passed')
      return
    }
    writeResponse(this.#writer, response)
    call.reply(this.#writer.bytes, this.#writer.length)
  }

  #fail(call: RpcCall, error: unknown): void {
    const { status, text } = this.#statusOf(error)
    call.finish(status, text)
  }

  #statusOf(error: unknown): Refusal {
    const { stats, onError } = this.#parts
    stats.serviceErrors++
    if (error instanceof InvalidRequest) {
      return { status: rpcStatus.invalidArgument, text: error.message }
    }
    if (error instanceof NotConfigured) {
      return { status: rpcStatus.unavailable, text: error.message }
    }
    onError(error)
    return { status: rpcStatus.internal, text: 'internal error' }
  }
}

type Settle = (call: PendingCall, decision: Decision | undefined, error: unknown) => void

/** A call that waits for the decision of its only counter. */
class PendingCall implements Callback {
  readonly call: RpcCall
  readonly plan: RlsPlan
  readonly startMs: number
  readonly #settle: Settle

  constructor(settle: Settle, call: RpcCall, plan: RlsPlan, startMs: number) {
    this.call = call
    this.plan = plan
    this.startMs = startMs
    this.#settle = settle
  }

  resolve(decision: Decision): void {
    this.#settle(this, decision, undefined)
  }

  reject(error: unknown): void {
    this.#settle(this, undefined, error)
  }
}

class NotConfigured extends Error {
  override readonly name = 'NotConfigured'
}
