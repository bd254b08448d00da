/**
 * Bodies of requests and of responses while they arrive. Bytes flow from a body to one sink, no
 * faster than the sink takes them. Chunks must not be changed: another sink may get them too.
 */

import type { HeaderList } from '../header-list.ts'

export interface Body {
  /**
   * Returns all bytes if the body is complete, has no trailers and at most `bytesMax` bytes. The
   * caller does not pipe it then.
   */
  whole(bytesMax: number): Buffer | undefined
  /** Writes the bytes that are here, and those that arrive, to the sink. To be called once. */
  pipe(sink: BodySink): void
  /** Continues after a write that returned false. */
  resume(): void
  /** Releases the rest; the sink is not called any more. Does nothing to a complete body. */
  cancel(): void
}

export interface BodySink {
  /** Returns false if the sink is full until it resumes the body. A few more chunks may follow. */
  write(chunk: Buffer): boolean
  /** The body is complete. The chunk, if there is one, is its last. */
  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void
  /** The body is incomplete: no more of it arrives. */
  fail(error: Error): void
}
