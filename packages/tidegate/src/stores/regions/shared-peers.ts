/**
 * What a region knows about its peers in the mode `shared`: when each was heard, the exchange that
 * is under way, and the keys that it may not know yet.
 */

import type { SharedMessage } from './shared-messages.ts'

/** An exchange without an answer is repeated after this time, or after three round trips. */
const RETRY_MS_MIN = 1_000

/** A peer that has nothing to tell is heard once in this time. */
const HEARTBEAT_MS = 1_000

/** A peer is heard more often than this, unless messages are lost. */
const SILENT_MS = 2 * HEARTBEAT_MS

interface PeerState {
  heardMs: number
  sentMs: number
  isUnderWay: boolean
  exchange: number
  roundTripMs: number
  incarnation: string
  isAligned: boolean
  readonly dirty: Set<string>
}

export class PeerStates {
  readonly #self: number
  readonly #exchangeMs: number
  readonly #suspectAfterMs: number
  readonly #peers: readonly PeerState[]

  constructor(
    regions: number,
    self: number,
    exchangeMs: number,
    suspectAfterMs: number,
    nowMs: number,
  ) {
    this.#self = self
    this.#exchangeMs = exchangeMs
    this.#suspectAfterMs = suspectAfterMs
    this.#peers = Array.from({ length: regions }, () => ({
      heardMs: nowMs,
      sentMs: -Infinity,
      isUnderWay: false,
      exchange: 0,
      roundTripMs: 0,
      incarnation: '',
      isAligned: true,
      dirty: new Set<string>(),
    }))
  }

  /** Returns true if the peer has lost its data since its last message. */
  hear(peer: number, message: SharedMessage, nowMs: number): boolean {
    const state = this.#at(peer)
    // The answer to what was sent meanwhile is lost too.
    if (nowMs - state.heardMs > SILENT_MS) this.reached(peer)
    state.heardMs = nowMs
    if (message.isAnswer && state.isUnderWay && message.exchange === state.exchange) {
      state.isUnderWay = false
      state.roundTripMs = nowMs - state.sentMs
    }
    const isOther = state.incarnation !== '' && message.incarnation !== state.incarnation
    state.incarnation = message.incarnation
    return isOther
  }

  /** The next exchange may begin at once. */
  reached(peer: number): void {
    if (peer < 0) return
    const state = this.#at(peer)
    state.isUnderWay = false
    state.sentMs = -Infinity
  }

  setAligned(peer: number, isAligned: boolean): void {
    if (peer >= 0) this.#at(peer).isAligned = isAligned
  }

  /** The regions that are heard, and this one. */
  maskAt(nowMs: number): number {
    let mask = 1 << this.#self
    for (let peer = 0; peer < this.#peers.length; peer++) {
      const { heardMs, isAligned } = this.#at(peer)
      if (isAligned && nowMs - heardMs < this.#suspectAfterMs) mask |= 1 << peer
    }
    return mask
  }

  /** True if an exchange may begin: one is under way at a time. */
  isFree(peer: number, nowMs: number): boolean {
    const { isUnderWay, sentMs, roundTripMs } = this.#at(peer)
    const waitMs = isUnderWay ? Math.max(RETRY_MS_MIN, 3 * roundTripMs) : this.#exchangeMs - 1
    return nowMs - sentMs >= waitMs
  }

  isHeartbeatDue(peer: number, nowMs: number): boolean {
    return nowMs - this.#at(peer).sentMs >= HEARTBEAT_MS
  }

  /** Returns the number of the exchange. */
  begin(peer: number, nowMs: number): number {
    const state = this.#at(peer)
    state.sentMs = nowMs
    state.isUnderWay = true
    state.exchange++
    return state.exchange
  }

  markDirty(key: string): void {
    for (let peer = 0; peer < this.#peers.length; peer++) {
      if (peer !== this.#self) this.#at(peer).dirty.add(key)
    }
  }

  /** Keys of which the peer may not know all. */
  dirty(peer: number): Set<string> {
    return this.#at(peer).dirty
  }

  #at(peer: number): PeerState {
    return this.#peers[peer] as PeerState
  }
}
