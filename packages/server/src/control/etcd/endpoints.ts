/**
 * The members of an etcd cluster that a client may ask: in random order, so that a fleet spreads
 * over them, and sticky, so that a client stays with one that answers.
 */

import { randomInt } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

export class Endpoints {
  readonly #urls: readonly URL[]
  #at = 0

  constructor(urls: readonly string[]) {
    this.#urls = shuffled(urls.map((url) => new URL(url)))
  }

  get count(): number {
    return this.#urls.length
  }

  get current(): URL {
    const url = this.#urls[this.#at]
    if (url === undefined) throw new Error('etcd has no endpoints')
    return url
  }

  /** Moves on from a member that failed. Late reports about another one change nothing. */
  leave(failed: URL): void {
    if (failed === this.current) this.#at = (this.#at + 1) % this.#urls.length
  }

  /** For people, without credentials. */
  get description(): string {
    return this.#urls
      .map(({ host }) => host)
      .sort()
      .join(', ')
  }
}

/** Selects the client of Node for the scheme of a URL. */
export function requestOf({ protocol }: URL): typeof httpRequest {
  return protocol === 'https:' ? httpsRequest : httpRequest
}

function shuffled<T>(values: readonly T[]): T[] {
  const all = [...values]
  for (let at = all.length - 1; at > 0; at--) {
    const other = randomInt(at + 1)
    const [one, two] = [all[at], all[other]]
    if (one !== undefined && two !== undefined) [all[at], all[other]] = [two, one]
  }
  return all
}
