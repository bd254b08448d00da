/** Clients that do not take what was written for them. */

import { constants, type Http2ServerResponse } from 'node:http2'
import type { SlowClients } from '../slow-clients.ts'

/** Of looks at a response in which nothing of it was taken: after ten to fifteen seconds. */
const STALLED_LOOKS = 3

/** The same of a client that was slow and did take something; see `http1/stall-watch.ts`. */
const STALLED_LOOKS_OF_READERS = 12

const readers = new WeakSet<Http2ServerResponse>()

/** Cuts a response off that stays where it is. Costs nothing where it is gone already. */
export function giveUpIfStalled(outgoing: Http2ServerResponse, slowClients: SlowClients): void {
  if (outgoing.writableLength === 0) return
  const patience = readers.has(outgoing) ? STALLED_LOOKS_OF_READERS : STALLED_LOOKS
  let looks = 0
  const look = () => {
    looks += 1
    if (looks === patience) outgoing.stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    // Where nothing is read of a whole connection, the end of a stream cannot be told on it either.
    else if (looks > patience) outgoing.stream.session?.destroy()
  }
  const forget = () => {
    slowClients.forget(look)
    outgoing.off('drain', onDrain).off('finish', forget).off('close', forget)
  }
  const onDrain = () => {
    if (looks > 0) readers.add(outgoing)
    forget()
  }
  slowClients.watch(look)
  outgoing.on('drain', onDrain).on('finish', forget).on('close', forget)
}
