/**
 * What can go wrong with a request to one member of etcd, and what that means for the next one.
 * Only these errors are handled inside; callers get a ControlError.
 */

import { ControlError } from '../control-error.ts'

export const failureKinds = [
  /** The member does not answer. Another one may. */
  'away',
  /** The token has expired, or is missing. */
  'token',
  /** The user, the password or the certificate is refused. */
  'denied',
  /** The start of a watch or a pinned revision was compacted. */
  'compacted',
  /** The response is larger than this client reads. */
  'large',
  /** The request is refused as such. */
  'refused',
  'full',
] as const

export type FailureKind = (typeof failureKinds)[number]

export class EtcdFailure extends Error {
  readonly kind: FailureKind
  /** False if the member certainly did not get the request. */
  readonly wasSent: boolean

  constructor(kind: FailureKind, message: string, wasSent = true) {
    super(message)
    this.kind = kind
    this.wasSent = wasSent
  }
}

const FULL_ADVICE = 'nothing was changed; docs/control-plane.md shows how to make room'

/** Codes of gRPC: https://grpc.github.io/grpc/core/md_doc_statuscodes.html */
const codes = { outOfRange: 11, exhausted: 8, denied: 7, unauthenticated: 16 }

/** `body` is the parsed response, `status` its status. */
export function failureOf(status: number, body: unknown): EtcdFailure {
  const { code, message } = errorOf(body)
  const text = message === '' ? `status ${status}` : message
  if (status === 404) {
    return new EtcdFailure('refused', `${text}: the member needs enable-grpc-gateway: true`)
  }
  if (/CommonName/.test(text)) {
    const advice = 'use a client certificate without a Common Name, as docs/control-plane.md shows'
    return new EtcdFailure('denied', `${text}; ${advice}`)
  }
  if (isAboutToken(text) || (code === codes.unauthenticated && !/failed/.test(text))) {
    return new EtcdFailure('token', text)
  }
  if (/authentication failed/.test(text) || code === codes.denied) {
    return new EtcdFailure('denied', text)
  }
  if (/compacted|future revision/.test(text) || code === codes.outOfRange) {
    return new EtcdFailure('compacted', text)
  }
  if (/space exceeded/.test(text) || code === codes.exhausted) return new EtcdFailure('full', text)
  if (status >= 500) return new EtcdFailure('away', text)
  return new EtcdFailure('refused', text)
}

/** The error of a transaction. Without a response, it is unknown if the member has applied it. */
export function transactionErrorOf(failure: unknown, place: string): unknown {
  const error = controlErrorOf(failure, place)
  if (!(failure instanceof EtcdFailure && error instanceof ControlError)) return error
  if (error.code !== 'unreachable' || !failure.wasSent) return error
  const message = `${error.message}; the change may have been made: look before you repeat it`
  return new ControlError(error.code, message, { cause: failure, mayBeApplied: true })
}

/** True if a new token helps. A change of users or roles makes every older token invalid. */
function isAboutToken(text: string): boolean {
  return /invalid auth token|user name is empty|auth store is old/.test(text)
}

export function controlErrorOf(failure: unknown, place: string): unknown {
  if (!(failure instanceof EtcdFailure)) return failure
  const message = `${place}: ${failure.message}`
  const options = { cause: failure }
  switch (failure.kind) {
    case 'token':
    case 'denied':
      return new ControlError('denied', message, options)
    case 'full':
      return new ControlError('full', `${message}; ${FULL_ADVICE}`, options)
    case 'refused':
    case 'large':
      return new ControlError('out-of-bounds', message, options)
    default:
      return new ControlError('unreachable', message, options)
  }
}

/** Bodies of errors, those in a stream as well. */
function errorOf(body: unknown): { readonly code: number; readonly message: string } {
  if (typeof body === 'string') return { code: 0, message: body }
  if (typeof body !== 'object' || body === null) return { code: 0, message: '' }
  const { error, message, code, grpc_code: grpcCode } = body as Record<string, unknown>
  if (typeof error === 'object' && error !== null) return errorOf(error)
  const text = typeof message === 'string' ? message : error
  return {
    code: Number(code ?? grpcCode ?? 0),
    message: typeof text === 'string' ? text : '',
  }
}
