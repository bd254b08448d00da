/**
 * The header fields of a request that matter to gRPC, and whether they are what HTTP/2 allows:
 * https://www.rfc-editor.org/rfc/rfc9113#section-8.2 and the following.
 */

import type { HpackDecoder } from './hpack-decoder.ts'

export interface RequestHead {
  readonly method: string
  readonly path: string
  readonly contentType: string
  /** `grpc-timeout` as it came. */
  readonly timeout: string
  readonly contentLength: number | undefined
  /** Not to be answered, but reset. */
  readonly isMalformed: boolean
  readonly isTooLarge: boolean
  /** No head at all, but fields as they may follow a body. */
  readonly isTrailers: boolean
}

/** As SETTINGS_MAX_HEADER_LIST_SIZE counts: names, values and 32 for each. */
export const HEAD_BYTES_MAX = 16_384

const FIELD_OVERHEAD = 32

const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

/** No control characters but tab, and no space at the ends. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for.
const WRONG_VALUE = /[\u0000-\u0008\u000a-\u001f\u007f]|^[ \t]|[ \t]$/

const connectionFields = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade'],
])

export function readHead(decoder: HpackDecoder, block: Buffer): RequestHead {
  const head = new Head()
  decoder.decode(block, (name, value) => head.add(name, value))
  return head.end()
}

class Head {
  readonly #pseudo = new Map<string, string>()
  #contentType = ''
  #timeout = ''
  #contentLength: number | undefined
  #isMalformed = false
  #hasFields = false
  #size = 0

  add(name: string, value: string): void {
    this.#size += name.length + value.length + FIELD_OVERHEAD
    if (this.#size > HEAD_BYTES_MAX || this.#isMalformed) return
    if (name.startsWith(':')) {
      const isKnown = [':method', ':path', ':scheme', ':authority'].includes(name)
      if (!isKnown || this.#hasFields || this.#pseudo.has(name) || WRONG_VALUE.test(value)) {
        this.#isMalformed = true
      }
      this.#pseudo.set(name, value)
      return
    }
    this.#hasFields = true
    this.#isMalformed = !this.#isField(name, value)
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
      contentLength: this.#contentLength,
      isMalformed: this.#isMalformed || !hasAll,
      isTooLarge: this.#size > HEAD_BYTES_MAX,
      isTrailers: this.#pseudo.size === 0 && !this.#isMalformed,
    }
  }

  #isField(name: string, value: string): boolean {
    if (!NAME.test(name) || WRONG_VALUE.test(value) || connectionFields.has(name)) return false
    switch (name) {
      case 'te':
        return value === 'trailers'
      case 'content-type':
        this.#contentType = value
        return true
      case 'grpc-timeout':
        this.#timeout = value
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
