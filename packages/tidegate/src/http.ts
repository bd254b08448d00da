/**
 * The parts of a guard, for a proxy or a middleware of your own: the client's address, the header
 * fields of a decision, and the body of a refusal.
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
