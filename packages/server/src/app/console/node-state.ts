/** The state of this node for the console, from the document of `/status`. */

import type { NodeState, TargetView } from '../../admin/console/console-types.ts'
import type { RunningGateway } from '../../gateway/gateway.ts'

/** The document of `/status`. */
export interface StatusDocument {
  readonly program: string
  readonly startedAt: string
  readonly ready: boolean
  readonly policy: object
  readonly upstreams: object
  readonly store: object
  readonly overload: {
    readonly delayMs: number
    readonly requests: number
    readonly sheddingShare: Readonly<Record<string, number>>
  }
  readonly control?: object
  readonly regions?: object
}

interface PolicyFields {
  readonly version?: string
  readonly loadedAt?: string
  readonly enabled?: boolean
  readonly limits?: number
  readonly refused?: readonly string[]
}

interface ControlFields {
  readonly kind?: string
  readonly scope?: 'node' | 'fleet'
  readonly connected?: boolean
  readonly published?: number
  readonly live?: number
  readonly overrides?: number
  readonly blocks?: number
}

export function nodeStateOf({
  program,
  startedAt,
  ready,
  policy,
  overload,
  control = {},
}: StatusDocument): NodeState {
  const { version = '', loadedAt = startedAt, enabled = true, limits = 0 }: PolicyFields = policy
  const { refused = [] }: PolicyFields = policy
  const { kind = '', scope = 'node', connected }: ControlFields = control
  const { published, live, overrides = 0, blocks = 0 }: ControlFields = control
  return {
    ...{ program, startedAt, scope, limits, overrides, blocks },
    isReady: ready,
    policyVersion: version,
    policyLoadedAt: loadedAt,
    isEnabled: enabled,
    refusedProblems: refused,
    controlKind: kind,
    isControlConnected: connected ?? null,
    publishedVersion: published ?? null,
    liveVersion: live ?? null,
    loopDelayMs: overload.delayMs,
    requestsInFlight: overload.requests,
    sheddingShare: Math.max(0, ...Object.values(overload.sheddingShare)),
  }
}

/** A page with more targets would be slow to read. */
const TARGETS_MAX = 200

export function targetViews(
  upstreams: ReturnType<RunningGateway['upstreams']>,
): readonly TargetView[] {
  return Object.entries(upstreams)
    .flatMap(([upstream, targets]) =>
      targets.map(({ target, state, inFlight, waiting }) => ({
        upstream,
        target: String(target),
        state: String(state),
        inFlight: numberOf(inFlight),
        waiting: numberOf(waiting),
      })),
    )
    .slice(0, TARGETS_MAX)
}

function numberOf(value: unknown): number | null {
  return typeof value === 'number' ? value : null
}
