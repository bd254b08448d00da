/**
 * The store of another region as a store. Its clock is that of the other region's server. Calls of
 * one turn of the event loop travel in one message, under the deadline of the link.
 *
 * It rejects with the errors of a store, and never sends a call twice: whether a call without an
 * answer was charged stays unknown, which can cost units and never creates them. Units of an answer
 * that arrives late are given back.
 */

import {
  type Adjustment,
  type Charge,
  type ChargeMode,
  type Counter,
  chargeOneAsGroup,
  type Decision,
  type Store,
  TidegateError,
} from 'tidegate'
import { MessageError } from '../link/bytes.ts'
import { frameTypes } from '../link/frames.ts'
import { type ProcessTime, processTime } from '../process-time.ts'
import { canGiveBack } from './give-back.ts'
import type { PeerLink } from './peer-link.ts'
import { decodeDecisions, encodeCall, GROUP_MAX, type StoreCall } from './store-messages.ts'

/** Units of a late answer, which are not given back yet. */
interface Owed {
  readonly charge: Charge
  readonly decision: Decision
  readonly sentMs: number
}

/** About 300 bytes each. Units beyond stay charged. */
const OWED_MAX = 4_096

export class PeerStore implements Store {
  readonly isRemote = true
  readonly chargeOne = chargeOneAsGroup
  readonly #link: PeerLink
  readonly #time: ProcessTime
  readonly #owed: Owed[] = []

  constructor(link: PeerLink, time: ProcessTime = processTime) {
    this.#link = link
    this.#time = time
  }

  charge(group: readonly Charge[], mode: ChargeMode): Promise<readonly Decision[]> {
    return this.#decide({ kind: mode, group }, mode === 'peek' ? undefined : this.#giveBack(group))
  }

  adjust(group: readonly Adjustment[]): Promise<readonly Decision[]> {
    return this.#decide({ kind: 'adjust', group })
  }

  async reset(group: readonly Counter[]): Promise<void> {
    await this.#link.request(frameTypes.store, encodeCall({ kind: 'reset', group }))
  }

  /** The link is closed by its owner. */
  close(): void {}

  /** A grant after the deadline is of no use, because the call was decided without it. */
  #giveBack(group: readonly Charge[]): (body: Uint8Array) => void {
    const sentMs = this.#time.now()
    return (body) => {
      const decisions = decisionsOf(body, group.length)
      for (const [at, charge] of group.entries()) {
        const decision = decisions[at]
        const isOwed = decision !== undefined && decision.granted > 0
        if (isOwed && this.#owed.length < OWED_MAX) this.#owed.push({ charge, decision, sentMs })
      }
      this.#giveOwedBack()
    }
  }

  /** Units that are owed while the region is cut off wait for the next answer. */
  #giveOwedBack(): void {
    if (this.#owed.length === 0 || !this.#link.isUp) return
    const nowMs = this.#time.now()
    const owed = this.#owed.splice(0, GROUP_MAX)
    const back = owed.flatMap((one) => givenBack(one, nowMs - one.sentMs))
    if (back.length > 0) void this.adjust(back).catch(() => undefined)
  }

  async #decide(
    call: StoreCall,
    onLate?: (body: Uint8Array) => void,
  ): Promise<readonly Decision[]> {
    const answer = await this.#link.request(frameTypes.store, encodeCall(call), onLate)
    this.#giveOwedBack()
    try {
      return decodeDecisions(answer, call.group.length)
    } catch (error) {
      if (!(error instanceof MessageError)) throw error
      throw new TidegateError('store-failed', `the region ${this.#link.peer}: ${error.message}`)
    }
  }
}

function decisionsOf(body: Uint8Array, count: number): readonly Decision[] {
  try {
    return decodeDecisions(body, count)
  } catch {
    return []
  }
}

function givenBack({ charge, decision }: Owed, elapsedMs: number): Adjustment[] {
  const { name, limit, key, hold } = charge
  if (hold !== undefined) return [{ name, limit, key, units: 0, release: hold.id }]
  if (!canGiveBack(limit, decision, elapsedMs)) return []
  return [{ name, limit, key, units: -decision.granted }]
}
