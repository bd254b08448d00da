/**
 * The parts of a guard, for those who build a proxy or a middleware of their own: who asks, what a
 * decision looks like as header fields, and what a refusal says.
 */

export {
  type AddressSource,
  type ClientIp,
  type ClientIpOptions,
  clientIp,
} from './http/client-ip.ts'
export {
  type HeaderDialect,
  headerDialects,
  type ResponseHead,
  retryAfterSeconds,
  windowSeconds,
  writeHeaders,
} from './http/headers.ts'
export { type IpAddress, ipKey, parseIp } from './http/ip-address.ts'
export { PROBLEM_CONTENT_TYPE, type Problem, problemOf } from './http/problem.ts'
