/**
 * Closes a connection on which the client is still sending. If it were closed at once, the kernel
 * would answer further bytes with a reset, and the client might never read the response. So only
 * the sending side is closed, and received bytes are dropped for a time, up to a bound.
 * https://www.rfc-editor.org/rfc/rfc9112#section-9.6
 */

import type { Socket } from 'node:net'

/** nginx waits 5 s between two reads; a client that has not stopped after 2 s ignores responses. */
const LINGER_MS = 2_000

/** At line rate, the time alone would admit gigabytes. */
const LINGER_BYTES_MAX = 1_024 ** 2

/** A check costs less than 1 µs. */
const POLL_MS = 50

export function closeAfterReading(socket: Socket): void {
  socket.end()
  socket.resume()
  const start = { bytes: socket.bytesRead, timeMs: performance.now() }
  const timer = setInterval(() => {
    const isLong = performance.now() - start.timeMs > LINGER_MS
    if (isLong || socket.bytesRead - start.bytes > LINGER_BYTES_MAX) socket.destroy()
  }, POLL_MS).unref()
  socket.once('end', () => socket.destroySoon())
  socket.once('close', () => clearInterval(timer))
}
