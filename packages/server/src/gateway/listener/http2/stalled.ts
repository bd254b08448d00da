/** Clients that do not take what was written for them. */

import { constants, type Http2ServerResponse } from 'node:http2'
import type { SlowClients } from '../slow-clients.ts'

/** Of looks at a response in which nothing of it was taken: after ten to fifteen seconds. */
const STALLED_LOOKS = 3

/** Cuts a response off that stays where it is. Costs nothing where it is gone already. */
export function giveUpIfStalled(outgoing: Http2ServerResponse, slowClients: SlowClients): void {
  if (outgoing.writableLength === 0) return
  let looks = 0
  const look = () => {
    looks += 1
    if (looks === STALLED_LOOKS) outgoing.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    // Where nothing is read of a whole connection, the end of a stream cannot be told on it either.
    else if (looks > STALLED_LOOKS) outgoing.stream.session?.destroy()
  }
  const forget = () => {
    slowClients.forget(look)
    outgoing.off('drain', forget).off('finish', forget).off('close', forget)
  }
  slowClients.watch(look)
  outgoing.on('drain', forget).on('finish', forget).on('close', forget)
}
