/** The spans of the services and their attributes; docs/tracing.md has the same list. */

import { attributeNames } from 'tidegate/opentelemetry'

/** https://opentelemetry.io/docs/specs/semconv/http/http-spans/ and its page for RPC */
export const serverAttributes = {
  method: 'http.request.method',
  path: 'url.path',
  scheme: 'url.scheme',
  protocol: 'network.protocol.version',
  route: 'http.route',
  status: 'http.response.status_code',
  errorType: attributeNames.errorType,
  resends: 'http.request.resend_count',
  address: 'server.address',
  port: 'server.port',
  rpcSystem: 'rpc.system.name',
  rpcMethod: 'rpc.method',
  rpcStatus: 'rpc.response.status_code',
  door: 'tidegate.door',
  outcome: 'tidegate.outcome',
  upstream: 'tidegate.upstream',
} as const

const { errorType, dbSystem, batchSize, shard, ...check } = attributeNames
const server = serverAttributes

/** Every attribute that a span can have. */
export const spanAttributes = {
  'server (HTTP)': [
    ...[server.method, server.path, server.scheme, server.protocol, server.route],
    ...[server.status, errorType],
  ],
  'server (gRPC)': [server.rpcSystem, server.rpcMethod, server.rpcStatus, errorType],
  'ratelimit.check': [server.door, server.outcome, ...Object.values(check)],
  'ratelimit.store': [dbSystem, batchSize, shard, errorType],
  upstream: [
    ...[server.upstream, server.method, server.address, server.port, server.status],
    ...[server.resends, errorType],
  ],
} as const
