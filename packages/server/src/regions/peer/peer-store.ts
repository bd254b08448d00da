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
import { decodeDecisions, encodeCall, type StoreCall } from './store-messages.ts'

export class PeerStore implements Store {
  readonly isRemote = true
  readonly chargeOne = chargeOneAsGroup
  readonly #link: PeerLink
  readonly #time: ProcessTime

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
      const elapsedMs = this.#time.now() - sentMs
      const decisions = decisionsOf(body, group.length)
      const back = group.flatMap((charge, at) => givenBack(charge, decisions[at], elapsedMs))
      if (back.length > 0) void this.adjust(back).catch(() => undefined)
    }
  }

  async #decide(
    call: StoreCall,
    onLate?: (body: Uint8Array) => void,
  ): Promise<readonly Decision[]> {
    const answer = await this.#link.request(frameTypes.store, encodeCall(call), onLate)
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

function givenBack(
  { name, limit, key, hold }: Charge,
  decision: Decision | undefined,
  elapsedMs: number,
): Adjustment[] {
  if (decision === undefined || decision.granted === 0) return []
  if (hold !== undefined) return [{ name, limit, key, units: 0, release: hold.id }]
  if (!canGiveBack(limit, decision, elapsedMs)) return []
  return [{ name, limit, key, units: -decision.granted }]
}
