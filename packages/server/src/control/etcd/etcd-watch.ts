/**
 * One watch of a range of keys: a stream of JSON lines from one member. It reports messages until
 * it ends, for any reason, and reports the end once. A refused watch has status 200 and stays open,
 * so `canceled` is its end.
 */

import type { EtcdClient, OpenStream } from './etcd-client.ts'
import { EtcdFailure, failureOf } from './etcd-failure.ts'
import { fieldsOf, type GatewayMessages, type WatchMessage } from './gateway-messages.ts'
import { JsonLines } from './json-lines.ts'

export interface WatchRange {
  /** The first key, and the first key after the range. */
  readonly from: string
  readonly end: string
  /** The first revision that is reported. */
  readonly startRevision: bigint
}

export interface WatchListener {
  /** A message with changes, or with a revision up to which there were none. */
  onMessage(message: WatchMessage): void
  onEnd(failure: EtcdFailure): void
}

/**
 * A message has one transaction, or many if a watch starts in the past: then entries are loaded.
 */
const LINE_BYTES_MAX = 4 * 1024 ** 2

/** A member answers immediately; one that is stopped never does. */
const CREATED_MS_MAX = 3_000

/**
 * Resolves when the member has created the watch. Rejects with an EtcdFailure if it does not. After
 * a failure, the client continues with another member.
 */
export async function openWatch(
  client: EtcdClient,
  messages: GatewayMessages,
  { from, end, startRevision }: WatchRange,
  listener: WatchListener,
): Promise<OpenStream> {
  const created = Promise.withResolvers<void>()
  const { endpoints } = client
  const endpoint = endpoints.current
  let [isCreated, isEnded] = [false, false]
  let stream: OpenStream | undefined
  const fail = (failure: EtcdFailure) => {
    if (isEnded) return
    isEnded = true
    stream?.close()
    if (!isAboutData(failure)) endpoints.leave(endpoint)
    if (isCreated) listener.onEnd(failure)
    else created.reject(failure)
  }
  const lines = new JsonLines(LINE_BYTES_MAX, (value) => {
    // One chunk can have the end of the watch and messages after it.
    if (isEnded) return
    const message = messageOf(value, messages)
    if (message instanceof EtcdFailure) fail(message)
    else if (!message.isCreated) listener.onMessage(message)
    else {
      isCreated = true
      created.resolve()
    }
  })
  const create = {
    key: messages.key(from),
    range_end: messages.key(end),
    start_revision: String(startRevision),
    progress_notify: true,
  }
  const timer = setTimeout(
    () => fail(new EtcdFailure('away', `no watch within ${CREATED_MS_MAX} ms`)),
    CREATED_MS_MAX,
  )
  // The promise may be rejected before it is awaited below.
  created.promise.catch(() => undefined)
  try {
    stream = await client.openStream(
      '/v3/watch',
      { create_request: create },
      {
        onChunk(chunk) {
          try {
            lines.add(chunk)
          } catch (error) {
            fail(new EtcdFailure('large', error instanceof Error ? error.message : String(error)))
          }
        },
        onEnd: fail,
      },
    )
    await created.promise
    return stream
  } catch (error) {
    stream?.close()
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** True if every member would respond alike. */
export function isAboutData({ kind }: EtcdFailure): boolean {
  return kind === 'compacted' || kind === 'large'
}

function messageOf(value: unknown, messages: GatewayMessages): WatchMessage | EtcdFailure {
  const { error } = fieldsOf(value)
  if (error !== undefined) return failureOf(0, value)
  const message = messages.readWatch(value)
  if (message.canceled === undefined) return message
  if (message.isCompacted) return new EtcdFailure('compacted', message.canceled)
  return failureOf(0, { message: message.canceled })
}
