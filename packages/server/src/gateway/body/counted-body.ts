/** A body that passes through unchanged while its bytes are counted. */

import type { HeaderList } from '../header-list.ts'
import type { Body, BodySink } from './body.ts'

export class CountedBody implements Body, BodySink {
  readonly #source: Body
  #sink: BodySink | undefined
  bytes = 0

  constructor(source: Body) {
    this.#source = source
  }

  whole(bytesMax: number): Buffer | undefined {
    const found = this.#source.whole(bytesMax)
    if (found !== undefined) this.bytes = found.length
    return found
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    this.#source.pipe(this)
  }

  resume(): void {
    this.#source.resume()
  }

  cancel(): void {
    this.#source.cancel()
  }

  write(chunk: Buffer): boolean {
    this.bytes += chunk.length
    return this.#sink?.write(chunk) ?? false
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    this.bytes += chunk?.length ?? 0
    this.#sink?.end(chunk, trailers)
  }

  fail(error: Error): void {
    this.#sink?.fail(error)
  }
}
