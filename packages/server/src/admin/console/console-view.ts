/** The service as the console sees it. The composition root implements it. */

import type {
  ClientView,
  LimitHistory,
  LimitView,
  SlowView,
  Snapshot,
  Tick,
  WhatIf,
} from './console-types.ts'

export interface ConsoleView {
  /** `isRaw` shows keys; else digests of them. */
  snapshot(isRaw: boolean): Promise<Snapshot>
  tick(isRaw: boolean): Tick
  /** The parts that seldom change, as they were last read. */
  slow(): SlowView
  /**
   * Calls `onTick` once a second, and `onSlow` when one of the other parts has changed, at most 4
   * times a second, until the returned function is called.
   */
  subscribe(listener: ConsoleListener): () => void
  limits(): readonly LimitView[]
  /** Undefined for a limit without decisions. */
  limitHistory(name: string): LimitHistory | undefined
  /** One client with its counters. Throws ApiError for an invalid address. */
  client(asked: ClientAsked): Promise<ClientView>
  /** Tries a policy on the traffic of the last minutes. */
  whatIf(text: string, isRaw: boolean): Promise<WhatIf>
}

export interface ConsoleListener {
  onTick(): void
  onSlow(): void
}

export const clientKinds = ['ip', 'apiKey', 'user', 'organisation', 'certificate'] as const

export interface ClientAsked {
  readonly kind: (typeof clientKinds)[number]
  readonly value: string
  /** Limits may be for some requests only. */
  readonly method: string
  readonly path: string
}
