/** A list of header fields as the library writes to it. */

import type { ResponseHead } from 'tidegate/http'
import { fieldOf, type HeaderList, setField } from './message.ts'

export class ListHead implements ResponseHead {
  readonly #headers: HeaderList

  constructor(headers: HeaderList) {
    this.#headers = headers
  }

  getHeader(name: string): string | undefined {
    return fieldOf(this.#headers, lowerCase(name))
  }

  setHeader(name: string, value: string): void {
    setField(this.#headers, lowerCase(name), value)
  }
}

/** The names are the few that the library writes; as constants they are compared by address. */
const lowerCased = new Map<string, string>()

function lowerCase(name: string): string {
  const known = lowerCased.get(name)
  if (known !== undefined) return known
  const lower = name.toLowerCase()
  lowerCased.set(name, lower)
  return lower
}
