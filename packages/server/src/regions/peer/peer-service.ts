/**
 * Answers calls of other regions from the store of this one. Decisions that were made without the
 * store are not passed on: the other region declares by itself what happens then.
 */

import type { Decision, Limit, Store } from 'tidegate'
import type { RegionMode } from '../../policy/schema/regions/regions-section.ts'
import { MessageError } from '../link/bytes.ts'
import type { FrameHandler } from '../link/link-server.ts'
import { isReserveName, limitNameOf } from './counter-names.ts'
import { decodeCall, encodeDecisions, type StoreCall } from './store-messages.ts'

/** `modeOf` returns the mode of a limit by its name, if regions share it. */
export function peerService(
  store: Store,
  modeOf: (name: string) => RegionMode | undefined,
): FrameHandler {
  return async (_from, body) => {
    const call = decodeCall(body)
    for (const { name } of call.group) {
      const mode = modeOf(limitNameOf(name))
      // Such units belong to their region; another one may only forget them with their key.
      const isOwn = (isReserveName(name) || mode === 'shared') && call.kind !== 'reset'
      if (isOwn || mode === undefined) {
        throw new MessageError('a limit that regions do not share')
      }
    }
    return run(store, exactly(call))
  }
}

const exact = new WeakMap<Limit, Limit>()

/**
 * Without leases of this process: units of a lease whose process stalls would be charged whole, and
 * leases hide when a window ends, so that units of a late answer could not be given back.
 */
function exactly<T extends StoreCall>(call: T): T {
  const group = call.group.map((counter) => {
    const limit = exact.get(counter.limit) ?? { ...counter.limit, accuracy: 'exact' as const }
    exact.set(counter.limit, limit)
    return { ...counter, limit }
  })
  return { ...call, group }
}

async function run(store: Store, call: StoreCall): Promise<Uint8Array> {
  if (call.kind === 'reset') {
    await store.reset(call.group)
    return encodeDecisions([])
  }
  const decisions =
    call.kind === 'adjust'
      ? await store.adjust(call.group)
      : await store.charge(call.group, call.kind)
  if (decisions.some(isUnsure)) throw new Error('the store of this region does not answer')
  return encodeDecisions(decisions)
}

function isUnsure({ degraded }: Decision): boolean {
  return degraded !== null && degraded.reason !== 'unconfirmed'
}
