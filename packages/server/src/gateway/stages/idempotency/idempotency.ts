/**
 * Idempotency keys: a request with `Idempotency-Key` goes to its upstream once, and repeated
 * requests get the response of the first. The key is forwarded, so that an upstream can use it too.
 *
 * The stage comes before the limits, so that replays are free, or behind them if the limits count
 * every request (`count: every`).
 */

import type { MaybePromise } from 'tidegate'
import {
  createIdempotency,
  type Execution,
  type Idempotency,
  type IdempotencyEvent,
  type IdempotencyProblem,
  type IdempotencyStore,
  KEY_FIELD,
  type KeptResponse,
  keptOfList,
  problemFields,
  REPLAYED_FIELD,
  type Start,
} from 'tidegate/idempotency'
import type { ReadSecret } from '../../../config/secrets.ts'
import { planKey, readKey } from '../../../limits/key-plan.ts'
import { PathPatterns } from '../../../limits/match/path-pattern.ts'
import type { IdempotencySection } from '../../../policy/schema/idempotency/idempotency-section.ts'
import type { BufferTotal } from '../../body/buffer-body.ts'
import { type GatewayRequest, type GatewayResponse, responseOf } from '../../message.ts'
import type { Handler, Stage } from '../../pipeline.ts'
import { textResponse } from '../../refusal.ts'
import { upstreamProblem } from '../../upstreams/upstream-problem.ts'
import { isChargedBefore, limitOutcome } from '../rate-limit.ts'
import { DetachedRequest } from './detached-request.ts'
import { type Held, holdResponse } from './hold-response.ts'

export interface IdempotencyStageOptions {
  readonly section: IdempotencySection | undefined
  /** Opens the store of the keys; called only with a section. */
  readonly openStore: (() => IdempotencyStore) | undefined
  readonly ipv6Prefix: number
  readonly readSecret: ReadSecret
  readonly observer: ((event: IdempotencyEvent) => void) | undefined
}

/** At most one of them is defined. */
export interface IdempotencyStages {
  readonly keysBeforeLimits: Stage | undefined
  readonly keysAfterLimits: Stage | undefined
  /** For gauges; undefined without a section. */
  readonly core: Idempotency | undefined
}

/** A thousand bodies of 64 KB. Beyond it, requests with a key are refused, responses not kept. */
const HELD_BYTES_MAX = 64 * 1_024 ** 2

export function idempotencyStages(options: IdempotencyStageOptions): IdempotencyStages {
  const { section, openStore } = options
  if (section === undefined || openStore === undefined) {
    return { keysBeforeLimits: undefined, keysAfterLimits: undefined, core: undefined }
  }
  const core = createIdempotency(coreOptions(section, openStore(), options))
  const stage = keyStage(core, section, options)
  if (section.count === 'every') {
    return { keysBeforeLimits: undefined, keysAfterLimits: stage, core }
  }
  return { keysBeforeLimits: stage, keysAfterLimits: undefined, core }
}

function coreOptions(
  section: IdempotencySection,
  store: IdempotencyStore,
  { readSecret, observer }: IdempotencyStageOptions,
) {
  const { methods, paths, scope, otherwise, count, ttl, wait, lease, ...others } = section
  const { encryptionKey, ...rest } = others
  return {
    ...rest,
    ...({ store, methods, ttl: `${ttl}ms`, wait: `${wait}ms`, lease: `${lease}ms` } as const),
    ...(observer !== undefined && { observer }),
    ...(encryptionKey !== undefined && {
      encryptionKeys: readSecret(encryptionKey, 'idempotency.encryptionKey'),
    }),
  }
}

function keyStage(
  core: Idempotency,
  section: IdempotencySection,
  { ipv6Prefix }: Pick<IdempotencyStageOptions, 'ipv6Prefix'>,
): Stage {
  const { paths, required, count } = section
  const patterns = paths.includes('/**') ? undefined : new PathPatterns([...paths])
  const isConcerned = ({ method, path, upgrade }: GatewayRequest): boolean => {
    if (!core.appliesTo(method) || upgrade !== undefined) return false
    if (patterns === undefined) return true
    patterns.read(path)
    return paths.some((_, at) => patterns.matches(at))
  }
  const senderPlan = planKey(
    { key: section.scope, otherwise: section.otherwise },
    { region: undefined, ipv6Prefix },
  )
  const bodies: BufferTotal = { bytes: 0, bytesMax: HELD_BYTES_MAX }
  const responses: BufferTotal = { bytes: 0, bytesMax: HELD_BYTES_MAX }
  const startOf = (request: GatewayRequest, detached: DetachedRequest) =>
    core.start({
      method: request.method,
      target: request.path + request.query,
      keyField: request.header(KEY_FIELD),
      scope: () => readKey(senderPlan, request, '', ''),
      body: (bytesMax) => detached.readBody(bytesMax, bodies),
    })
  const run = (request: GatewayRequest, next: Handler): Promise<GatewayResponse> => {
    const detached = new DetachedRequest(request)
    return new Promise((resolve, reject) => {
      const onError = (error: unknown) => {
        // Only a body rejects with a code.
        if (error instanceof Error && 'code' in error) resolve(upstreamProblem(error))
        else reject(error)
      }
      const onStart = (start: Start) => {
        if (start.kind === 'execute') {
          const { execution } = start
          if (count === 'unique') request.context.set(isChargedBefore, execution.isRetry)
          execute(detached, next, { core, responses, execution, resolve, reject: onError })
        } else if (start.kind === 'pass') settle(() => next(request), resolve, onError)
        else if (start.kind === 'refuse') resolve(problemResponse(start.problem))
        else resolve(replayOf(start.response))
      }
      startOf(request, detached).then((start) => settle(() => start, onStart, onError), onError)
    })
  }
  return (request, next): MaybePromise<GatewayResponse> => {
    if (!isConcerned(request)) return next(request)
    if (!required && request.header(KEY_FIELD) === undefined) return next(request)
    return run(request, next)
  }
}

interface Executing {
  readonly core: Idempotency
  readonly responses: BufferTotal
  readonly execution: Execution
  resolve(response: GatewayResponse): void
  reject(error: unknown): void
}

/** Sends the request on, and keeps its response. Callbacks take fewer turns than promises. */
function execute(detached: DetachedRequest, next: Handler, executing: Executing): void {
  const { core, responses, execution, resolve, reject } = executing
  const onEnd = (response: GatewayResponse) => {
    detached.end()
    resolve(response)
  }
  const onError = (error: unknown) => {
    void execution.release('unknown').then(() => {
      detached.end()
      reject(error)
    })
  }
  const onResponse = (response: GatewayResponse) => {
    const remains = remainsOf(detached, response)
    if (remains !== undefined) {
      settle(
        () => execution.release(remains),
        () => onEnd(response),
        onError,
      )
      return
    }
    const { responseBytesMax } = core.settings
    const onHeld = (held: Held) => {
      settle(() => keep(detached, response, held, executing), onEnd, onError)
    }
    settle(() => holdResponse(response, responseBytesMax, responses), onHeld, onError)
  }
  settle(() => next(detached), onResponse, onError)
}

/** Calls one of the two with the outcome of `run`: at once, unless it is a promise. */
function settle<T>(
  run: () => MaybePromise<T>,
  onValue: (value: T) => void,
  onError: (error: unknown) => void,
): void {
  try {
    const value = run()
    if (!(value instanceof Promise)) onValue(value)
    else value.then((known) => settle(() => known, onValue, onError), onError)
  } catch (error) {
    onError(error)
  }
}

/** What remains of a key whose request the upstream has not answered; undefined if it has. */
function remainsOf({ context }: GatewayRequest, { problem, status }: GatewayResponse) {
  const verdict = context.get(limitOutcome)
  // The limits have denied the request, and nothing was charged.
  if (verdict !== undefined && verdict.outcome !== 'admitted') return 'unused'
  if (problem === undefined) return undefined
  // Without a valid response in time, the upstream may have executed the request.
  return status === 502 || status === 504 ? 'unknown' : 'retry'
}

/** Resolves to the response that is sent: this one, or that of another owner of the key. */
function keep(
  detached: DetachedRequest,
  response: GatewayResponse,
  held: Held,
  { core, execution }: Executing,
): Promise<GatewayResponse> {
  const { status } = response
  if (held.kind === 'broken') {
    return execution.release('unknown').then(() => upstreamProblem(held.error))
  }
  if (held.kind === 'not-kept') {
    detached.attach()
    return execution.finishUnkept(status, held.reason).then(() => response)
  }
  const headers = keptOfList(response.headers, core.settings.keptHeaders)
  return execution.finish({ status, headers, body: held.body }).then((finished) => {
    if (finished.kind === 'own') return response
    if (finished.kind === 'refuse') return problemResponse(finished.problem)
    return replayOf(finished.response)
  })
}

function replayOf({ status, headers, body }: KeptResponse): GatewayResponse {
  const bytes = body.length === 0 ? undefined : Buffer.from(body)
  return responseOf(status, [...headers, REPLAYED_FIELD, 'true'], bytes)
}

function problemResponse(problem: IdempotencyProblem): GatewayResponse {
  const { 'content-type': type = '', ...fields } = problemFields(problem)
  const headers = Object.entries(fields).flat()
  const response = textResponse(problem.status, JSON.stringify(problem), type, headers)
  response.problem = problem.detail
  return response
}
