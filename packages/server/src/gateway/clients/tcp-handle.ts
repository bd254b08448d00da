/**
 * The TCP connection below a socket, with or without TLS, as libuv sees it. node:net does not
 * publish these fields, and decides by them itself whether a socket has timed out while it sends.
 * Public counters are too coarse: `writableLength` moves when a whole write is complete, and below
 * HTTP/2 it is always 0.
 */

import type { Socket } from 'node:net'

export interface TcpHandle {
  /** Bytes that were handed to libuv; the kernel has taken all of them but `writeQueueSize`. */
  readonly bytesWritten: number
  /** Bytes that the kernel has not taken yet: its send buffer is full. */
  readonly writeQueueSize: number
  /** Returns 0, or the code of an error once the connection is closed. */
  getpeername(result: object): number
}

/** Returns undefined once the socket is closed. */
export function tcpHandleOf(socket: Socket): TcpHandle | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return undefined
  // The handle of a TLSSocket has that of its TCP connection as its parent.
  const below: unknown = Reflect.get(handle, '_parent') ?? handle
  return isTcpHandle(below) ? below : undefined
}

function isTcpHandle(value: unknown): value is TcpHandle {
  return (
    typeof value === 'object' &&
    value !== null &&
    'bytesWritten' in value &&
    'writeQueueSize' in value &&
    'getpeername' in value
  )
}
