/**
 * One stream of events for all pages of a browser with the same session. The page that holds a lock
 * reads the stream and passes its events on; when it is closed or hidden, the next one takes over.
 * Browsers allow six connections to a host over HTTP/1, so that pages with a stream each would soon
 * wait for one another. Without locks, every page has its own stream.
 */

interface Listener {
  onEvent(name: string, data: unknown): void
  /** The connection is lost, and the browser connects again. */
  onLost(): void
  /** The server has refused the stream; it is opened again afterwards. */
  onRefused(): Promise<void>
  /** What this page knows; undefined before the first data. */
  snapshot(): unknown
}

interface Message {
  readonly name: string
  readonly data?: unknown
}

const events = ['snapshot', 'tick', 'slow', 'ended'] as const
const RETRY_MS = 1_500

export class SharedStream {
  /** The session; pages of others do not share it. */
  readonly id: string
  readonly #listener: Listener
  readonly #channel: BroadcastChannel
  readonly #closing = new AbortController()
  #source: EventSource | undefined
  #retry: number | undefined

  constructor(id: string, listener: Listener) {
    this.id = id
    this.#listener = listener
    this.#channel = new BroadcastChannel(`tidegate ${id}`)
    this.#channel.onmessage = ({ data }) => this.#hear(data as Message)
    this.#channel.postMessage({ name: 'hello' })
    // Pages that are not on HTTPS or on this machine have no locks.
    if (navigator.locks === undefined) this.#open()
    else void this.#lead()
  }

  /** `isEnded`: the session is over, for the other pages too. */
  close(isEnded: boolean): void {
    if (isEnded) this.#channel.postMessage({ name: 'ended' })
    this.#closing.abort()
    clearTimeout(this.#retry)
    this.#source?.close()
    this.#channel.close()
  }

  async #lead(): Promise<void> {
    const { signal } = this.#closing
    const hold = () => {
      this.#open()
      return new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    }
    // Closed before it was its turn: the request rejects.
    await navigator.locks.request(`tidegate ${this.id}`, { signal }, hold).catch(() => undefined)
  }

  #hear({ name, data }: Message): void {
    if (name !== 'hello') this.#listener.onEvent(name, data)
    if (name !== 'hello' || this.#source === undefined) return
    const known = this.#listener.snapshot()
    if (known !== undefined) this.#channel.postMessage({ name: 'snapshot', data: known })
  }

  #open(): void {
    if (this.#closing.signal.aborted) return
    const source = new EventSource('../v1/stream')
    this.#source = source
    for (const name of events) {
      source.addEventListener(name, ({ data }) => {
        const message = { name, data: JSON.parse(data) as unknown }
        if (navigator.locks !== undefined) this.#channel.postMessage(message)
        this.#listener.onEvent(name, message.data)
      })
    }
    source.addEventListener('error', () => {
      this.#listener.onLost()
      // The browser connects again by itself, unless the server has refused.
      if (source.readyState !== EventSource.CLOSED || this.#source !== source) return
      this.#retry = setTimeout(async () => {
        await this.#listener.onRefused()
        this.#open()
      }, RETRY_MS)
    })
  }
}
