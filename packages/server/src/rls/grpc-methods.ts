/**
 * The gRPC side of a call: finds the method, takes the one message out of the body, and answers
 * what cannot be served. Nothing that a client sends leads to more than a status.
 */

import {
  MESSAGE_BYTES_MAX,
  MESSAGE_PREFIX_BYTES,
  type RpcCall,
  type RpcHandler,
  rpcStatus,
} from './rpc.ts'

/** A method gets the call and where its message lies in the call's bytes. */
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
      const text = `a message of more than ${MESSAGE_BYTES_MAX} bytes`
      return call.finish(rpcStatus.resourceExhausted, text)
    }
    if (bytes[start] !== 0 || from + length !== end) {
      return call.finish(rpcStatus.internal, 'a message that is not framed as gRPC')
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

/** `grpc-timeout` in milliseconds; undefined where there is none, or none that can be read. */
export function timeoutMs(text: string): number | undefined {
  if (text === '') return undefined
  const match = /^(\d{1,8})([HMSmun])$/.exec(text)
  return match === null ? undefined : Number(match[1]) * (unitsMs[match[2] as string] ?? 1)
}
