/**
 * The header fields of a request that gRPC uses, validated by the rules of HTTP/2:
 * https://www.rfc-editor.org/rfc/rfc9113#section-8.2 and the sections after it.
 */

import type { HpackDecoder } from './hpack/hpack-decoder.ts'

export interface RequestHead {
  readonly method: string
  readonly path: string
  readonly contentType: string
  /** The header `grpc-timeout` as received, or an empty text. */
  readonly timeout: string
  /** The headers `x-request-id` and `traceparent` as received, or empty texts. */
  readonly requestId: string
  readonly traceparent: string
  readonly contentLength: number | undefined
  /** True if the stream must be reset without a response. */
  readonly isMalformed: boolean
  readonly isTooLarge: boolean
  /** True if there are no pseudo-header fields, as in the trailers after a body. */
  readonly isTrailers: boolean
}

/** Counted as SETTINGS_MAX_HEADER_LIST_SIZE is: names, values and 32 bytes for each field. */
export const HEAD_BYTES_MAX = 16_384

const FIELD_OVERHEAD = 32

const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

/** Control characters except tab, and white space at either end. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
const INVALID_VALUE = /[\u0000-\u0008\u000a-\u001f\u007f]|^[ \t]|[ \t]$/

const connectionFields = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade'],
])

export function readHead(decoder: HpackDecoder, headerBlock: Buffer): RequestHead {
  const head = new Head()
  decoder.decode(headerBlock, (name, value) => head.add(name, value))
  return head.end()
}

class Head {
  readonly #pseudo = new Map<string, string>()
  #contentType = ''
  #timeout = ''
  #requestId = ''
  #traceparent = ''
  #contentLength: number | undefined
  #isMalformed = false
  #hasFields = false
  #size = 0

  add(name: string, value: string): void {
    this.#size += name.length + value.length + FIELD_OVERHEAD
    if (this.#size > HEAD_BYTES_MAX || this.#isMalformed) return
    if (name.startsWith(':')) {
      const isKnown = [':method', ':path', ':scheme', ':authority'].includes(name)
      if (!isKnown || this.#hasFields || this.#pseudo.has(name) || INVALID_VALUE.test(value)) {
        this.#isMalformed = true
      }
      this.#pseudo.set(name, value)
      return
    }
    this.#hasFields = true
    this.#isMalformed = !this.#isValidField(name, value)
  }

  end(): RequestHead {
    const method = this.#pseudo.get(':method') ?? ''
    const path = this.#pseudo.get(':path') ?? ''
    const hasAll = method !== '' && path !== '' && this.#pseudo.has(':scheme')
    return {
      method,
      path,
      contentType: this.#contentType,
      timeout: this.#timeout,
      requestId: this.#requestId,
      traceparent: this.#traceparent,
      contentLength: this.#contentLength,
      isMalformed: this.#isMalformed || !hasAll,
      isTooLarge: this.#size > HEAD_BYTES_MAX,
      isTrailers: this.#pseudo.size === 0 && !this.#isMalformed,
    }
  }

  #isValidField(name: string, value: string): boolean {
    if (!NAME.test(name) || INVALID_VALUE.test(value) || connectionFields.has(name)) return false
    switch (name) {
      case 'te':
        return value === 'trailers'
      case 'content-type':
        this.#contentType = value
        return true
      case 'grpc-timeout':
        this.#timeout = value
        return true
      case 'x-request-id':
        this.#requestId = value
        return true
      case 'traceparent':
        this.#traceparent = value
        return true
      case 'content-length':
        if (!/^\d{1,15}$/.test(value)) return false
        if (this.#contentLength !== undefined && this.#contentLength !== Number(value)) return false
        this.#contentLength = Number(value)
        return true
      default:
        return true
    }
  }
}
