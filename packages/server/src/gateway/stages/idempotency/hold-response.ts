/** Holds the response of an upstream until it is complete, so that it can be kept. */

import type { MaybePromise } from 'tidegate'
import type { NotKept } from 'tidegate/idempotency'
import type { Body } from '../../body/body.ts'
import { type BufferTotal, bufferBody } from '../../body/buffer-body.ts'
import { fieldOf } from '../../header-list.ts'
import type { GatewayResponse } from '../../message.ts'

export type Held =
  | { readonly kind: 'whole'; readonly body: Buffer }
  /** The body of the response still arrives. */
  | { readonly kind: 'not-kept'; readonly reason: NotKept }
  | { readonly kind: 'broken'; readonly error: Error }

/** Replaces the body of the response by its bytes, or leaves it as it is. */
export function holdResponse(
  response: GatewayResponse,
  bytesMax: number,
  total: BufferTotal,
): MaybePromise<Held> {
  const { body, headers } = response
  if (body === undefined) return { kind: 'whole', body: Buffer.alloc(0) }
  if (typeof body === 'string') return { kind: 'whole', body: Buffer.from(body) }
  if (Buffer.isBuffer(body)) return bounded(body, bytesMax)
  if (/^text\/event-stream\b/i.test(fieldOf(headers, 'content-type') ?? '')) {
    return { kind: 'not-kept', reason: 'streamed' }
  }
  if (Number(fieldOf(headers, 'content-length') ?? 0) > bytesMax) {
    return { kind: 'not-kept', reason: 'too-large' }
  }
  const whole = body.whole(bytesMax)
  if (whole === undefined) return readWhole(response, body, bytesMax, total)
  response.body = whole
  return bounded(whole, bytesMax)
}

async function readWhole(
  response: GatewayResponse,
  body: Body,
  bytesMax: number,
  total: BufferTotal,
): Promise<Held> {
  const { headers } = response
  try {
    const read = await bufferBody(body, bytesMax, total)
    response.body = read
    if (Buffer.isBuffer(read)) return bounded(read, bytesMax)
  } catch (error) {
    // Only the error of a body.
    return { kind: 'broken', error: error as Error }
  }
  const hasTrailers = fieldOf(headers, 'trailer') !== undefined
  return { kind: 'not-kept', reason: hasTrailers ? 'trailers' : 'too-large' }
}

function bounded(body: Buffer, bytesMax: number): Held {
  if (body.length > bytesMax) return { kind: 'not-kept', reason: 'too-large' }
  return { kind: 'whole', body }
}
