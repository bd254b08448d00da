/**
 * The gRPC side of a call: finds the method, takes the one message out of the body, and ends calls
 * that cannot be served with a status. No input of a client has another effect.
 */

import {
  MESSAGE_BYTES_MAX,
  MESSAGE_PREFIX_BYTES,
  type RpcCall,
  type RpcHandler,
  rpcStatus,
} from './rpc.ts'

/** Gets a call; its message is `call.bytes` from `start` to `end`. */
export type RpcMethod = (call: RpcCall, start: number, end: number) => void

export function grpcHandler(methods: ReadonlyMap<string, RpcMethod>): RpcHandler {
  return (call) => {
    const method = methods.get(call.path)
    if (method === undefined) {
      return call.finish(rpcStatus.unimplemented, 'no such method')
    }
    const { bytes, start, end } = call
    const from = start + MESSAGE_PREFIX_BYTES
    if (end < from) return call.finish(rpcStatus.internal, 'no message')
    if (bytes[start] === 1) {
      return call.finish(rpcStatus.unimplemented, 'compressed messages are not accepted')
    }
    const length = bytes.readUInt32BE(start + 1)
    if (length > MESSAGE_BYTES_MAX) {
      const text = `message of more than ${MESSAGE_BYTES_MAX} bytes`
      return call.finish(rpcStatus.resourceExhausted, text)
    }
    if (bytes[start] !== 0 || from + length !== end) {
      return call.finish(rpcStatus.internal, 'message without gRPC framing')
    }
    method(call, from, end)
  }
}

const unitsMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/** Returns `grpc-timeout` in milliseconds; undefined if it is missing or cannot be parsed. */
export function timeoutMs(text: string): number | undefined {
  if (text === '') return undefined
  const match = /^(\d{1,8})([HMSmun])$/.exec(text)
  return match === null ? undefined : Number(match[1]) * (unitsMs[match[2] as string] ?? 1)
}
