/**
 * The events of the last minute as they were sent, so that a page whose connection was cut gets
 * those that it has missed instead of everything. An id names the process too: a number of another
 * process, or of this one before a restart, is not taken for one of these.
 *
 * Callers that may see keys get other texts. An event has a text for each kind of caller that was
 * there, so that one that comes back as another kind gets everything.
 */

import { randomBytes } from 'node:crypto'

/** A tick every second for a minute, at about 10 KB each. */
const EVENTS_MAX = 60

interface SentEvent {
  readonly number: number
  readonly texts: ReadonlyMap<boolean, string>
}

export class SentEvents {
  readonly #process = randomBytes(6).toString('hex')
  readonly #events: SentEvent[] = []
  #last = 0

  /** Numbers an event, and returns its text. https://html.spec.whatwg.org/#server-sent-events */
  textOf(name: string, data: object): string {
    // JSON has no line breaks.
    return `event: ${name}\ndata: ${JSON.stringify(data)}\nid: ${this.#process}-${this.#last}\n\n`
  }

  /** Moves on to the next number, and keeps its texts for those that come back. */
  next(textsOf: () => ReadonlyMap<boolean, string>): ReadonlyMap<boolean, string> {
    this.#last += 1
    const texts = textsOf()
    this.#events.push({ number: this.#last, texts })
    if (this.#events.length > EVENTS_MAX) this.#events.shift()
    return texts
  }

  /** The texts after an id, in order; undefined if one of them is not there any more. */
  after(id: string | undefined, isRaw: boolean): readonly string[] | undefined {
    const [process, text = ''] = id?.split('-') ?? []
    const number = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN
    const oldest = this.#events[0]?.number ?? this.#last + 1
    const isKept = process === this.#process && number >= oldest - 1 && number <= this.#last
    if (!isKept) return undefined
    const missed = this.#events.filter((event) => event.number > number)
    const texts = missed.flatMap((event) => event.texts.get(isRaw) ?? [])
    return texts.length === missed.length ? texts : undefined
  }
}
