/**
 * Stands between a source and a sink that comes later: holds the bytes that arrive before it is
 * piped, and those that arrive while the sink is full.
 */

import type { HeaderList } from '../header-list.ts'
import type { Body, BodySink } from './body.ts'
import { GrowableBuffer } from './growable-buffer.ts'

/**
 * `held`: it is not piped, or the sink is full. `flowing`: bytes go to the sink. `complete` and
 * `failed`: nothing follows.
 */
type State = 'held' | 'flowing' | 'complete' | 'failed'

export class HeldBody implements Body, BodySink {
  readonly #source: Pick<Body, 'resume' | 'cancel'>
  readonly #bytesMax: number
  readonly #buffer = new GrowableBuffer()
  #state: State = 'held'
  #sink: BodySink | undefined
  #trailers: HeaderList | undefined
  #error: Error | undefined

  /** Asks the source to pause if it holds more than `bytesMax` bytes. */
  constructor(source: Pick<Body, 'resume' | 'cancel'>, bytesMax: number) {
    this.#source = source
    this.#bytesMax = bytesMax
  }

  /** True once a sink gets the bytes. */
  get isPiped(): boolean {
    return this.#sink !== undefined
  }

  write(chunk: Buffer): boolean {
    if (this.#state === 'flowing') return this.#pass(chunk)
    this.#buffer.add(chunk)
    return this.#sink === undefined && this.#buffer.length <= this.#bytesMax
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    this.#state = 'complete'
    this.#trailers = trailers
    if (chunk !== undefined) this.#buffer.add(chunk)
    this.#sink?.end(this.#takeHeld(), trailers)
  }

  fail(error: Error): void {
    if (this.#state === 'failed') return
    this.#state = 'failed'
    this.#error = error
    this.#buffer.take()
    this.#sink?.fail(error)
  }

  whole(bytesMax: number): Buffer | undefined {
    if (this.#state !== 'complete' || this.#trailers !== undefined) return undefined
    return this.#buffer.length <= bytesMax ? this.#buffer.view : undefined
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    if (this.#error !== undefined) sink.fail(this.#error)
    else if (this.#state === 'complete') sink.end(this.#takeHeld(), this.#trailers)
    else this.resume()
  }

  resume(): void {
    if (this.#state !== 'held' || this.#sink === undefined) return
    this.#state = 'flowing'
    const held = this.#takeHeld()
    if (held !== undefined) this.#pass(held)
    if (this.#state === 'flowing') this.#source.resume()
  }

  cancel(): void {
    if (this.#state === 'complete' || this.#state === 'failed') return
    this.#state = 'failed'
    this.#buffer.take()
    this.#source.cancel()
  }

  #takeHeld(): Buffer | undefined {
    return this.#buffer.length === 0 ? undefined : this.#buffer.take()
  }

  #pass(chunk: Buffer): boolean {
    if (this.#sink?.write(chunk) === true) return true
    if (this.#state === 'flowing') this.#state = 'held'
    return false
  }
}
