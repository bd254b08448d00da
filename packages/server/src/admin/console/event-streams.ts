/**
 * The streams of open consoles, as server-sent events: a snapshot, then a tick every second, and
 * the slow parts when they change. One text is made for all streams that may see keys, and one for
 * the others, so that a page more costs little. A page that comes back names the last event that it
 * has seen, and gets the events since then.
 *
 * https://html.spec.whatwg.org/multipage/server-sent-events.html
 */

import { ApiError } from '../../http-api/api-error.ts'
import type { StreamBody, StreamSink } from '../../http-api/messages.ts'
import type { ConsoleView } from './console-view.ts'
import { SentEvents } from './sent-events.ts'

/** Far more than operators have tabs. */
const STREAMS_MAX = 100

/** A reader that is this far behind is cut off, and connects again. */
const WAITING_BYTES_MAX = 1_048_576

/** Between two checks whether the credential of a stream still holds. */
const CHECK_MS = 10_000

/** The browser waits this long before it connects again. */
const RETRY_MS = 1_000

/** Events are made for this long after the last stream has ended, for a page that comes back. */
const LINGER_MS = 15_000

export interface StreamReader {
  /** True if it may see keys. */
  readonly isRaw: boolean
  /** The last event that it has seen. */
  readonly lastEventId: string | undefined
  /** Asked from time to time. */
  isAllowed(): boolean
}

interface Stream extends StreamReader {
  readonly sink: StreamSink
}

export class EventStreams {
  readonly #view: ConsoleView
  readonly #streams = new Set<Stream>()
  readonly #sent = new SentEvents()
  /** When the last stream of a kind has ended. */
  readonly #leftAtMs = new Map<boolean, number>()
  #end: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #linger: NodeJS.Timeout | undefined

  constructor(view: ConsoleView) {
    this.#view = view
  }

  /** Throws 503 if there are too many. */
  async open(reader: StreamReader): Promise<StreamBody> {
    if (this.#streams.size >= STREAMS_MAX) {
      throw new ApiError(503, `There are ${STREAMS_MAX} open consoles.`, { 'Retry-After': '10' })
    }
    const { isRaw, lastEventId } = reader
    const isKnown = this.#sent.after(lastEventId, isRaw) !== undefined
    const snapshot = isKnown ? undefined : await this.#view.snapshot(isRaw)
    return {
      start: (sink) => {
        const stream = { ...reader, sink }
        const first =
          snapshot === undefined
            ? (this.#sent.after(lastEventId, isRaw) ?? [])
            : [this.#sent.textOf('snapshot', snapshot)]
        sink.write(`retry: ${RETRY_MS}\n\n${first.join('')}`)
        this.#add(stream)
        return () => this.#remove(stream)
      },
    }
  }

  /** Ends all streams. */
  close(): void {
    for (const { sink } of this.#streams) sink.end()
    if (this.#streams.size === 0) this.#stop()
  }

  #add(stream: Stream): void {
    clearTimeout(this.#linger)
    this.#streams.add(stream)
    if (this.#end !== undefined) return
    this.#end = this.#view.subscribe({
      onTick: () => this.#send('tick', (isRaw) => this.#view.tick(isRaw)),
      onSlow: () => this.#send('slow', () => this.#view.slow()),
    })
    this.#timer = setInterval(() => this.#check(), CHECK_MS).unref()
  }

  #remove(stream: Stream): void {
    this.#streams.delete(stream)
    this.#leftAtMs.set(stream.isRaw, Date.now())
    if (this.#streams.size > 0) return
    this.#linger = setTimeout(() => this.#stop(), LINGER_MS).unref()
  }

  #stop(): void {
    clearTimeout(this.#linger)
    clearInterval(this.#timer)
    this.#end?.()
    this.#end = undefined
  }

  #check(): void {
    for (const { sink, isAllowed } of this.#streams) {
      if (isAllowed()) continue
      sink.write(this.#sent.textOf('ended', {}))
      sink.end()
    }
  }

  #send(name: string, dataOf: (isRaw: boolean) => object): void {
    const texts = this.#sent.next(() => {
      const kinds = [true, false].filter((isRaw) => this.#isAwaited(isRaw))
      return new Map(kinds.map((isRaw) => [isRaw, this.#sent.textOf(name, dataOf(isRaw))]))
    })
    for (const { sink, isRaw } of this.#streams) {
      if (sink.waitingBytes > WAITING_BYTES_MAX) sink.cut()
      else sink.write(texts.get(isRaw) ?? '')
    }
  }

  /** True if a stream of this kind is open, or was a moment ago. */
  #isAwaited(isRaw: boolean): boolean {
    if (Date.now() - (this.#leftAtMs.get(isRaw) ?? -Infinity) < LINGER_MS) return true
    return [...this.#streams].some((stream) => stream.isRaw === isRaw)
  }
}
