/**
 * Reads the head of a request strictly: what two programs could read differently is an error.
 * https://www.rfc-editor.org/rfc/rfc9112
 */

import { hasForbidden, type ReadErrors, readFields } from '../../http1/fields.ts'
import { type BadHead, HEADERS_MAX } from '../../request-head.ts'
import { isMethod } from '../methods.ts'
import type { WireRequest } from '../read-request.ts'

/** `text` does not include the empty line. */
export function readHead(text: string): WireRequest {
  if (hasForbidden(text)) throw requestErrors.invalid('the head has control characters')
  const found = text.indexOf('\r\n')
  const lineEnd = found === -1 ? text.length : found
  const methodEnd = text.indexOf(' ')
  const targetEnd = text.lastIndexOf(' ', lineEnd)
  const method = text.slice(0, methodEnd)
  if (targetEnd <= methodEnd || !isMethod(method)) {
    throw requestErrors.invalid('the request line is not valid')
  }
  const target = text.slice(methodEnd + 1, targetEnd)
  const version = versionOf(text.slice(targetEnd + 1, lineEnd))
  if (version === undefined || !isTarget(method, target)) {
    throw requestErrors.invalid('the request line is not valid')
  }
  const fields: string[] = []
  const add = (name: string, value: string) => fields.push(name, value)
  readFields(text, lineEnd + 2, add, reading)
  return { method, target, fields, version, authority: undefined, hasBody: undefined }
}

/** A path, a URL or an asterisk, of ASCII. `canonical-path.ts` decides which paths are valid. */
const targetForm = /^(?:\/|\*$|https?:\/\/)[\x21-\x7e]*$/i
const authorityForm = /^[\x21-\x7e]+$/

export function isTarget(method: string, target: string): boolean {
  return (method === 'CONNECT' ? authorityForm : targetForm).test(target)
}

function versionOf(text: string): WireRequest['version'] | undefined {
  if (text === 'HTTP/1.1') return '1.1'
  return text === 'HTTP/1.0' ? '1.0' : undefined
}

export const requestErrors: ReadErrors = {
  invalid: (message) => requestError(400, message),
  tooLarge: (message) => requestError(431, message),
}

/** Closes the connection, because the next request could begin anywhere. */
export function requestError(status: number, detail: string): Error & BadHead {
  return Object.assign(new Error(detail), { status, detail })
}

const reading = { errors: requestErrors, fieldsMax: HEADERS_MAX }
