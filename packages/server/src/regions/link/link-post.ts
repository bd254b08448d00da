/**
 * One message and its answer, as a stream of an HTTP/2 session.
 *
 * The deadline measures how long the other region is silent. Time in which this process was stalled
 * does not count: its timers run before it reads the answers that have arrived meanwhile.
 */

import { type ClientHttp2Session, constants } from 'node:http2'
import { TidegateError } from 'tidegate'
import { MESSAGE_BYTES_MAX } from './frames.ts'

/** The region has answered, but not with the frames. */
export class RefusedMessage extends Error {
  /** True if operators have given up the region of this process. */
  readonly isForgotten: boolean

  constructor(status: number) {
    super(refusals[status] ?? `it answers with status ${status}`)
    this.isForgotten = status === FORGOTTEN_STATUS
  }
}

export interface PostOptions {
  readonly deadlineMs: number
  /** Called with an answer after the deadline. */
  readonly onLate: (bytes: Buffer) => void
}

export const FORGOTTEN_STATUS = 410

const refusals: Readonly<Record<number, string>> = {
  401: 'it refuses the token',
  403: 'it refuses the name of this region',
  409: 'its list of regions and shares is another one',
  [FORGOTTEN_STATUS]: 'it has forgotten this region',
}

/** A peer sends at most as many bytes as it was asked for. */
const ANSWER_BYTES_MAX = MESSAGE_BYTES_MAX

/** An answer after the deadline is of use to give units back that it granted. */
const LATE_MS_MAX = 5_000

/** Time to read what has arrived, which takes a few turns of the event loop. */
const GRACE_MS_MIN = 5

export function post(
  session: ClientHttp2Session,
  message: Buffer,
  token: string | undefined,
  { deadlineMs, onLate }: PostOptions,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/v1/frames',
      ...(token === undefined ? undefined : { authorization: `Bearer ${token}` }),
    })
    const chunks: Buffer[] = []
    let length = 0
    let status = 0
    const deadline = startDeadline(deadlineMs, () => {
      reject(new TidegateError('store-timeout', `no answer within ${deadlineMs} ms`))
      return setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), LATE_MS_MAX).unref()
    })
    stream.on('response', (headers) => {
      status = headers[':status'] ?? 0
    })
    stream.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > ANSWER_BYTES_MAX) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM)
      else chunks.push(chunk)
    })
    stream.on('error', () => undefined)
    stream.on('close', () => {
      deadline.stop()
      if (status === 200 && stream.rstCode === 0) {
        if (deadline.isOver) onLate(Buffer.concat(chunks))
        else resolve(Buffer.concat(chunks))
      } else if (status === 0) reject(new Error('the connection broke before the answer'))
      else reject(new RefusedMessage(status))
    })
    stream.end(message)
  })
}

/** Calls `end` after the deadline, and later by the time for which this process was stalled. */
function startDeadline(deadlineMs: number, end: () => NodeJS.Timeout) {
  const sentMs = performance.now()
  const deadline = { isOver: false, stop: () => clearTimeout(timer) }
  let timer = setTimeout(() => {
    const stalledMs = performance.now() - sentMs - deadlineMs
    const graceMs = Math.max(GRACE_MS_MIN, Math.min(stalledMs, deadlineMs))
    timer = setTimeout(() => {
      deadline.isOver = true
      timer = end()
    }, graceMs)
  }, deadlineMs)
  return deadline
}
