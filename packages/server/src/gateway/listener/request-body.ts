/**
 * The body of a request as it arrives: no faster than it is taken, no more than is allowed, and
 * not so slowly that it only holds a connection. What is held here is bounded by the high water
 * mark, whatever the client sends.
 */

import type { IncomingMessage } from 'node:http'
import type { Http2ServerRequest } from 'node:http2'
import { Readable } from 'node:stream'
import { LOOK_INTERVAL_MS, type SlowClients } from './slow-clients.ts'

export interface BodyLimits {
  readonly bytesMax: number
  readonly bytesPerSecondMin: number
  readonly slowClients: SlowClients
}

const HELD_BYTES_MAX = 64 * 1_024

export function requestBody(
  incoming: IncomingMessage | Http2ServerRequest,
  { bytesMax, bytesPerSecondMin, slowClients }: BodyLimits,
): Readable {
  let bytes = 0
  let bytesBefore: number | undefined
  const body = new Readable({
    highWaterMark: HELD_BYTES_MAX,
    read: () => void incoming.resume(),
    destroy(error, done) {
      slowClients.forget(look)
      incoming.off('data', onData).off('end', onEnd).off('close', onClose)
      incoming.pause()
      done(error)
    },
  })
  const look = () => {
    // One that began in between has not had its time yet, and one that is paused waits for us.
    const arrived = bytes - (bytesBefore ?? Number.NEGATIVE_INFINITY)
    const isSlow = arrived < (bytesPerSecondMin * LOOK_INTERVAL_MS) / 1_000
    bytesBefore = bytes
    if (isSlow && !incoming.isPaused()) body.destroy(bodyError('TIDEGATE_BODY_TOO_SLOW'))
  }
  const onData = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > bytesMax) body.destroy(bodyError('TIDEGATE_BODY_TOO_LARGE'))
    else if (!body.push(chunk)) incoming.pause()
  }
  const onEnd = () => {
    slowClients.forget(look)
    body.push(null)
  }
  const onClose = () => {
    if (!incoming.complete) body.destroy(bodyError('TIDEGATE_BODY_ABORTED'))
  }
  // Listening alone would start the flow before anybody asks for it.
  incoming.pause()
  incoming.on('data', onData).on('end', onEnd).on('close', onClose)
  slowClients.watch(look)
  return body
}

function bodyError(code: string): Error {
  return Object.assign(new Error('the body of the request is not as it must be'), { code })
}
