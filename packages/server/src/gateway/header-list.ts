/**
 * Header fields as flat lists: name, value, name, value, as both ends of the wire need them. Names
 * are in lower case. In lists of requests, every name occurs once.
 */

import type { ResponseHead } from 'tidegate/http'

export type HeaderList = string[]

export function fieldOf(headers: HeaderList, name: string): string | undefined {
  for (let at = 0; at < headers.length; at += 2) {
    if (headers[at] === name) return headers[at + 1]
  }
  return undefined
}

/** Replaces all fields of that name. */
export function setField(headers: HeaderList, name: string, value: string): void {
  removeField(headers, name)
  headers.push(name, value)
}

export function removeField(headers: HeaderList, name: string): void {
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    if (headers[at] === name) headers.splice(at, 2)
  }
}

/** Lets the library, whose names are in lower case, write rate limit fields to a list. */
export class HeaderListWriter implements ResponseHead {
  readonly #headers: HeaderList
  readonly #reportsDegraded: boolean
  /** True if the list may already have a field that the library writes. */
  #mayReplace = false

  /** Without `reportsDegraded`, the fields that report an unavailable store are left out. */
  constructor(headers: HeaderList, reportsDegraded: boolean) {
    this.#headers = headers
    this.#reportsDegraded = reportsDegraded
    for (let at = 0; at < headers.length && !this.#mayReplace; at += 2) {
      this.#mayReplace = isWrittenByLibrary(headers[at] as string)
    }
  }

  getHeader(name: string): string | undefined {
    return this.#mayReplace ? fieldOf(this.#headers, name) : undefined
  }

  setHeader(name: string, value: string): void {
    if (!this.#reportsDegraded && degradedNames.has(name)) return
    if (this.#mayReplace) setField(this.#headers, name, value)
    else this.#headers.push(name, value)
  }
}

const degradedNames: ReadonlySet<string> = new Set(['x-ratelimit-status', 'x-ratelimit-warning'])

/** Matches `RateLimit`, `X-RateLimit-Limit`, `Retry-After`, `Cache-Control` and similar names. */
function isWrittenByLibrary(name: string): boolean {
  return name.startsWith('r') || name.startsWith('x-r') || name === 'cache-control'
}
