/** A list of header fields as the library writes to it. */

import type { ResponseHead } from 'tidegate/http'
import { fieldOf, type HeaderList, setField } from './message.ts'

export class ListHead implements ResponseHead {
  readonly #headers: HeaderList
  /** Whether one of the names that the library writes may be there already. */
  #mayHaveOne: boolean

  constructor(headers: HeaderList) {
    this.#headers = headers
    this.#mayHaveOne = false
    for (let at = 0; at < headers.length && !this.#mayHaveOne; at += 2) {
      this.#mayHaveOne = mayBeOne(headers[at] as string)
    }
  }

  getHeader(name: string): string | undefined {
    return this.#mayHaveOne ? fieldOf(this.#headers, lowerCase(name)) : undefined
  }

  setHeader(name: string, value: string): void {
    const lower = lowerCase(name)
    if (this.#mayHaveOne) setField(this.#headers, lower, value)
    else this.#headers.push(lower, value)
  }
}

/** `RateLimit`, `X-RateLimit-Limit`, `Retry-After`, `Cache-Control` and the like. */
function mayBeOne(name: string): boolean {
  const first = name.charCodeAt(0)
  return (first === R || first === X || first === C) && /^(x-)?r|^cache-control$/.test(name)
}

const R = 0x72
const X = 0x78
const C = 0x63

/** The names are the few that the library writes; as constants they are compared by address. */
const lowerCased = new Map<string, string>()

function lowerCase(name: string): string {
  const known = lowerCased.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  lowerCased.set(name, lower)
  return lower
}
