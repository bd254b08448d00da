/** Errors of undici under the codes of the gateway's own client, which logs and retries go by. */

import { bodyError } from '../../body/body-error.ts'
import { type UpstreamErrorCode, upstreamError } from '../http1/upstream-error.ts'

const codes: Readonly<Record<string, UpstreamErrorCode>> = {
  UND_ERR_CONNECT_TIMEOUT: 'UPSTREAM_CONNECT_TIMEOUT',
  UND_ERR_HEADERS_TIMEOUT: 'UPSTREAM_RESPONSE_TIMEOUT',
  UND_ERR_BODY_TIMEOUT: 'UPSTREAM_IDLE_TIMEOUT',
  UND_ERR_HEADERS_OVERFLOW: 'UPSTREAM_HEAD_TOO_LARGE',
  UND_ERR_INVALID_ARG: 'UPSTREAM_UNWRITABLE',
  UND_ERR_NOT_SUPPORTED: 'UPSTREAM_UNWRITABLE',
  // The connection ended before the length of the response was reached.
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'UPSTREAM_CLOSED',
  HPE_INVALID_EOF_STATE: 'UPSTREAM_CLOSED',
}

/** undici reports a response that it did not expect with the code of a closed socket, too. */
const closedMessages: ReadonlySet<string> = new Set(['other side closed', 'closed'])

/** undici fails with these if the body of the request ends early. */
const bodyCodes: ReadonlySet<string> = new Set([
  ...['UND_ERR_ABORTED', 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH'],
])

/** Returns errors of the system and of the body of the request as they are. */
export function errorOf(error: Error): Error {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (Object.hasOwn(codes, code)) return coded(codes[code] as UpstreamErrorCode, error)
  if (code === 'UND_ERR_SOCKET') {
    const isClosed = closedMessages.has(error.message)
    return coded(isClosed ? 'UPSTREAM_CLOSED' : 'UPSTREAM_INVALID', error)
  }
  if (code.startsWith('HPE_')) return coded('UPSTREAM_INVALID', error)
  if (!bodyCodes.has(code)) return error
  return bodyError('TIDEGATE_BODY_ABORTED')
}

function coded(code: UpstreamErrorCode, { message }: Error): Error {
  return upstreamError(code, message)
}
