/**
 * Closing a connection on which the client is still sending. If it were closed at once, the kernel
 * would answer what arrives with a reset, and the client might never read the response. So our side
 * is ended, and what comes is thrown away for a moment, up to a bound.
 * https://www.rfc-editor.org/rfc/rfc9112#section-9.6
 */

import type { Socket } from 'node:net'

const LINGER_MS = 2_000

/** At line rate the time alone would let through gigabytes. */
const LINGER_BYTES_MAX = 1_024 ** 2

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
