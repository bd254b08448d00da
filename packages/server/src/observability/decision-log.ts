/**
 * The lines of decisions, for every door: all refusals and degraded decisions within the bound of
 * `LineBudget`, and a share of the others. A decision without a line costs one comparison.
 *
 * Lines carry no keys, tokens or addresses, only digests. The only text of clients is method and
 * path, which the writer of the log escapes.
 */

import { hostname } from 'node:os'
import type { AppliedLimit, Decision, Degraded } from 'tidegate'
import { windowSeconds } from 'tidegate/http'
import type { Outcome, RequestOutcome } from '../limits/outcome.ts'
import type { Digest } from './digests.ts'
import type { LineBudget, LineBudgetOptions } from './line-budget.ts'
import type { Door } from './metrics/door-metrics.ts'
import type { CallerFields, DecisionLine, LoggedOutcome, PlaceFields } from './traffic-events.ts'

/** The settings of all lines that requests cause. */
export interface DecisionLogSettings extends LineBudgetOptions {
  /** The share of plain decisions that is logged. */
  readonly sampleAllowed: number
  readonly region: string | undefined
}

const silent: DecisionLogSettings = {
  level: 'silent',
  sampleAllowed: 0,
  linesPerSecondMax: 0,
  region: undefined,
  nodeId: '',
}

/** The sender of a request, before its parts become digests. */
export interface Caller {
  readonly requestId: string | undefined
  readonly traceId: string | undefined
  readonly client: string | undefined
  readonly apiKey: string | undefined
  readonly method: string
  readonly path: string
}

export interface DecidedRequest {
  readonly outcome: LoggedOutcome
  readonly reason: string | null
  /** The limit that decided, with its key if it is known. */
  readonly deciding?: (AppliedLimit & { readonly key: string | undefined }) | undefined
  readonly shadowDenied: readonly string[]
  readonly backendMs: number
  readonly upstreamMs?: number | undefined
}

const ENDPOINT_LENGTH_MAX = 256

const outcomes: Readonly<Record<Outcome, LoggedOutcome>> = {
  admitted: 'allowed',
  denied: 'denied',
  unavailable: 'unavailable',
  'missing-key': 'unauthenticated',
  blocked: 'blocked',
}

export class DecisionLog {
  readonly lines: LineBudget
  readonly #digest: Digest
  readonly #policyVersion: () => string | null
  #settings = silent
  #share = 0

  constructor(lines: LineBudget, digest: Digest, policyVersion: () => string | null = () => null) {
    this.lines = lines
    this.#digest = digest
    this.#policyVersion = policyVersion
  }

  /** Nothing is logged before the first call. The node `auto` is that of the host name. */
  use(settings: DecisionLogSettings): void {
    const nodeId = settings.nodeId === 'auto' ? hostname() : settings.nodeId
    this.#settings = { ...settings, nodeId }
    this.lines.use(this.#settings)
    this.#share = this.lines.isLogged('info') ? settings.sampleAllowed : 0
  }

  /** Draws whether a decision that is plain gets a line. */
  isSampled(): boolean {
    return this.#share > 0 && (this.#share === 1 || Math.random() < this.#share)
  }

  /** Writes the line of a decision by limits of the policy, if it gets one. */
  decided(door: Door, found: RequestOutcome, caller: () => Caller, times: DecisionTimes): void {
    const isOrdinary = isPlain(found)
    if (isOrdinary) {
      if (!this.isSampled()) return
    } else if (!this.lines.mayWrite(levelOf(found.outcome === 'admitted'))) return
    this.write(door, caller(), { ...requestFields(found), ...times }, isOrdinary)
  }

  /** Writes a line that was drawn or counted before. */
  write(door: Door, caller: Caller, decided: DecidedRequest, isPlain: boolean): void {
    const { outcome, reason, deciding, shadowDenied, backendMs, upstreamMs } = decided
    const { sampleAllowed } = this.#settings
    const line: DecisionLine = {
      door,
      ...this.callerFields(caller),
      outcome,
      reason,
      ...(deciding !== undefined && this.#figures(deciding)),
      ...(shadowDenied.length > 0 && { shadow_denied: shadowDenied }),
      store_ms: rounded(backendMs),
      ...(upstreamMs !== undefined && { upstream_ms: rounded(upstreamMs) }),
      ...(isPlain && sampleAllowed < 1 && { sample_rate: sampleAllowed }),
      policy: this.#policyVersion(),
      ...this.placeFields(),
    }
    const level = isPlain ? 'info' : levelOf(outcome === 'allowed')
    this.lines.emitCounted({ type: 'decision', level, line })
  }

  callerFields({ requestId, traceId, client, apiKey, method, path }: Caller): CallerFields {
    return {
      request_id: requestId ?? null,
      trace_id: traceId ?? null,
      client_id: client === undefined ? null : this.#digest(client),
      api_key_hash: apiKey === undefined ? null : this.#digest(apiKey),
      // Bytes that did not parse as a request have no endpoint.
      endpoint: method === '' ? null : `${method} ${path}`.slice(0, ENDPOINT_LENGTH_MAX),
    }
  }

  placeFields(): PlaceFields {
    const { region, nodeId } = this.#settings
    return { region: region ?? null, node_id: nodeId }
  }

  #figures({ name, limit: of, decision, key }: NonNullable<DecidedRequest['deciding']>) {
    const { limit, remaining, resetAfterMs, degraded } = decision
    const resetAt = new Date(Date.now() + (Number.isFinite(resetAfterMs) ? resetAfterMs : 0))
    return {
      limit_name: name,
      key_hash: key === undefined ? null : this.#digest(key),
      ...(isCounted(degraded) && { counter: limit - remaining }),
      limit,
      window_sec: windowSeconds(of) ?? null,
      ...(isCounted(degraded) && { reset_at: resetAt.toISOString() }),
      fallback: degraded !== null,
    }
  }
}

export type DecisionTimes = Pick<DecidedRequest, 'backendMs' | 'upstreamMs'>

/** Admitted by a store that responded, and by all limits in shadow mode. */
export function isPlain({ outcome, evaluation, shadowed }: RequestOutcome): boolean {
  if (outcome !== 'admitted' || isDegraded(evaluation?.decision)) return false
  return shadowed.every(({ decision }) => decision.allowed)
}

export function isDegraded(decision: Decision | undefined): boolean {
  const degraded = decision?.degraded ?? null
  return degraded !== null && degraded.reason !== 'disabled'
}

/** An admitted request that is logged is one that something is wrong with. */
function levelOf(isAdmitted: boolean): 'info' | 'warn' {
  return isAdmitted ? 'warn' : 'info'
}

function requestFields(found: RequestOutcome): Omit<DecidedRequest, 'backendMs'> {
  const { outcome, evaluation, refusedBy, shadowed } = found
  const applied = evaluation?.applied ?? []
  const deciding = applied.find(({ name }) => name === refusedBy) ?? tightest(applied)
  const key = found.keys().find(({ limit }) => limit === deciding?.name)?.key
  const shadowDenied = shadowed.filter(({ decision }) => !decision.allowed)
  return {
    outcome: outcomes[outcome],
    reason: refusedBy ?? evaluation?.decision.degraded?.reason ?? null,
    deciding: deciding && { ...deciding, key },
    shadowDenied: shadowDenied.map(({ name }) => name),
  }
}

/** True if a counter was charged: that of the store, or the local share of this process. */
function isCounted(degraded: Degraded | null): boolean {
  return degraded === null || degraded.mode === 'local' || degraded.reason === 'unconfirmed'
}

function tightest(applied: readonly AppliedLimit[]): AppliedLimit | undefined {
  let found: AppliedLimit | undefined
  for (const one of applied) {
    if (found === undefined || one.decision.remaining < found.decision.remaining) found = one
  }
  return found
}

/** To a microsecond. */
export function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
