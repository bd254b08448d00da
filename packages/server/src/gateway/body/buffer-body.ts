/**
 * Reads a body into memory, up to a bound. A small body becomes a `Buffer`; a larger one stays a
 * body that begins with the bytes read so far, so that a caller can pass it on.
 */

import type { Body } from './body.ts'
import { HeldBody } from './held-body.ts'

/** Bounds the bytes of several bodies that are read into memory at the same time. */
export interface BufferTotal {
  bytes: number
  readonly bytesMax: number
}

/**
 * Resolves to all bytes if there are at most `bytesMax`, and otherwise to a body. A body with
 * trailers stays a body, because a `Buffer` has none. Rejects if the body fails meanwhile.
 */
export function bufferBody(
  body: Body,
  bytesMax: number,
  total: BufferTotal = { bytes: 0, bytesMax: Number.POSITIVE_INFINITY },
): Promise<Buffer | Body> {
  const whole = body.whole(bytesMax)
  if (whole !== undefined) return Promise.resolve(whole)
  const held = new HeldBody(body, bytesMax)
  return new Promise((resolve, reject) => {
    let countedBytes = 0
    let isBuffering = true
    const stop = () => {
      isBuffering = false
      total.bytes -= countedBytes
    }
    body.pipe({
      write(chunk) {
        const takesMore = held.write(chunk)
        if (!isBuffering) return takesMore
        countedBytes += chunk.length
        total.bytes += chunk.length
        if (takesMore && total.bytes <= total.bytesMax) return true
        stop()
        resolve(held)
        return false
      },
      end(chunk, trailers) {
        held.end(chunk, trailers)
        if (!isBuffering) return
        stop()
        resolve(held.whole(bytesMax) ?? held)
      },
      fail(error) {
        held.fail(error)
        if (!isBuffering) return
        stop()
        reject(error)
      },
    })
  })
}
