/** The body of a request as undici takes it: a stream. */

import { Readable } from 'node:stream'
import type { Body } from '../../body/body.ts'
import { bodyError } from '../../body/body-error.ts'

/**
 * Pipes the body when undici first reads. Until then nothing of the request is sent, and the body
 * can be sent to another server.
 */
export function bodyStream(body: Body, bodyBytes: number | undefined): Readable {
  let isPiped = false
  let bytes = 0
  const push = (chunk: Buffer): boolean => {
    bytes += chunk.length
    if (bodyBytes === undefined || bytes <= bodyBytes) return stream.push(chunk)
    body.cancel()
    stream.destroy(bodyError('TIDEGATE_BODY_INVALID'))
    return false
  }
  const stream = new Readable({
    read() {
      if (isPiped) {
        body.resume()
        return
      }
      isPiped = true
      body.pipe({
        write: push,
        end(chunk) {
          if (chunk !== undefined) push(chunk)
          if (!stream.destroyed) stream.push(null)
        },
        fail: (error) => void stream.destroy(error),
      })
    },
  })
  // undici listens too, but not after its request has ended.
  stream.on('error', () => undefined)
  return stream
}
