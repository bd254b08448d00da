/** Clients that do not take what was written for them. */

import { ServerResponse } from 'node:http'
import { constants } from 'node:http2'
import type { Outgoing } from './node-request.ts'
import type { SlowClients } from './slow-clients.ts'

/** Of looks at a response in which nothing of it was taken: after ten to fifteen seconds. */
const STALLED_LOOKS = 3

/** Cuts a response off that stays where it is. Costs nothing where it is gone already. */
export function giveUpIfStalled(outgoing: Outgoing, slowClients: SlowClients): void {
  if (outgoing.writableLength === 0) return
  let looks = 0
  const look = () => {
    looks += 1
    if (looks === STALLED_LOOKS) cutOff(outgoing)
    else if (looks > STALLED_LOOKS) endSession(outgoing)
  }
  const forget = () => {
    slowClients.forget(look)
    outgoing.off('drain', forget).off('finish', forget).off('close', forget)
  }
  slowClients.watch(look)
  outgoing.on('drain', forget).on('finish', forget).on('close', forget)
}

export function cutOff(outgoing: Outgoing): void {
  if (outgoing instanceof ServerResponse) outgoing.destroy()
  else outgoing.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
}

/** Where nothing is read of a whole connection, the end of a stream cannot be told on it either. */
function endSession(outgoing: Outgoing): void {
  if (!(outgoing instanceof ServerResponse)) outgoing.stream.session?.destroy()
}
