/**
 * The body of a request: at most as many bytes as are allowed, and not so slow that it only holds a
 * connection. A small body is handed over when it is complete, a large one when its beginning is
 * here. Until then a slow client holds nothing but its own connection.
 */

import type { Body, BodySink } from '../body/body.ts'
import { type BodyErrorCode, bodyError } from '../body/body-error.ts'
import { type BufferTotal, bufferBody } from '../body/buffer-body.ts'
import type { HeaderList } from '../header-list.ts'
import type { SlowClients } from './slow-clients.ts'

export interface BodyLimits {
  readonly bytesMax: number
  readonly bytesPerSecondMin: number
  /** For the whole body to arrive. */
  readonly arrivalMsMax: number
  readonly slowClients: SlowClients
  /** Counts the bytes of all bodies that are not handed over yet. */
  readonly buffered: BufferTotal
}

/** Gets the number of bytes that have arrived. */
export interface ReceivedBytes {
  bodyBytesReceived: number
}

/** Most bodies of API requests are smaller, and are handed over whole. */
const BUFFERED_BYTES_MAX = 64 * 1_024

/** A thousand such bodies. Beyond it, bodies are handed over with the bytes that are here. */
export const BUFFERED_BYTES_TOTAL_MAX = 64 * 1_024 ** 2

/** The rate is measured over this part of the time that a whole body may take. */
const RATES_PER_ARRIVAL = 6

/** Over a shorter time, a short network interruption would look like a slow client. */
const RATE_MS_MIN = 1_000

/** Long enough for a short interruption, short enough that slow clients do not pile up. */
const RATE_MS_MAX = 5_000

/** Resolves to all bytes, or to a body that is still arriving. Rejects if a limit is exceeded. */
export function requestBody(
  incoming: Body,
  limits: BodyLimits,
  received: ReceivedBytes,
): Promise<Buffer | Body> {
  const limited = new LimitedBody(incoming, limits, received)
  return bufferBody(limited, BUFFERED_BYTES_MAX, limits.buffered)
}

class LimitedBody implements Body, BodySink {
  readonly #source: Body
  readonly #limits: BodyLimits
  readonly #received: ReceivedBytes
  readonly #startMs = performance.now()
  #sink: BodySink | undefined
  #bytes = 0
  /** True while the sink is full: the client waits for the gateway. */
  #isPaused = false
  /** When the current measurement of the rate began, and the bytes that had arrived then. */
  #rateSinceMs = this.#startMs
  #rateSinceBytes = 0

  constructor(source: Body, limits: BodyLimits, received: ReceivedBytes) {
    this.#source = source
    this.#limits = limits
    this.#received = received
  }

  whole(): undefined {
    return undefined
  }

  pipe(sink: BodySink): void {
    this.#sink = sink
    this.#limits.slowClients.watch(this.#check)
    this.#source.pipe(this)
  }

  resume(): void {
    this.#isPaused = false
    this.#source.resume()
  }

  cancel(): void {
    this.#limits.slowClients.forget(this.#check)
    this.#source.cancel()
  }

  write(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    this.#received.bodyBytesReceived = this.#bytes
    if (this.#bytes > this.#limits.bytesMax) {
      this.#stop('TIDEGATE_BODY_TOO_LARGE')
      return false
    }
    this.#isPaused = this.#sink?.write(chunk) === false
    return !this.#isPaused
  }

  end(chunk: Buffer | undefined, trailers: HeaderList | undefined): void {
    this.#limits.slowClients.forget(this.#check)
    const bytes = this.#bytes + (chunk?.length ?? 0)
    this.#received.bodyBytesReceived = bytes
    if (bytes > this.#limits.bytesMax) this.#stop('TIDEGATE_BODY_TOO_LARGE')
    else this.#sink?.end(chunk, trailers)
  }

  fail(error: Error): void {
    this.#limits.slowClients.forget(this.#check)
    this.#sink?.fail(error)
  }

  readonly #check = (nowMs: number) => {
    const isLate = nowMs - this.#startMs > this.#limits.arrivalMsMax
    if (isLate || this.#isSlow(nowMs)) this.#stop('TIDEGATE_BODY_TOO_SLOW')
  }

  #isSlow(nowMs: number): boolean {
    const { bytesPerSecondMin, arrivalMsMax } = this.#limits
    const passedMs = nowMs - this.#rateSinceMs
    if (passedMs < rateMs(arrivalMsMax) && !this.#isPaused) return false
    const arrivedBytes = this.#bytes - this.#rateSinceBytes
    this.#rateSinceMs = nowMs
    this.#rateSinceBytes = this.#bytes
    return !this.#isPaused && arrivedBytes < (bytesPerSecondMin * passedMs) / 1_000
  }

  #stop(code: BodyErrorCode): void {
    this.cancel()
    this.#sink?.fail(bodyError(code))
  }
}

function rateMs(arrivalMsMax: number): number {
  return Math.min(Math.max(arrivalMsMax / RATES_PER_ARRIVAL, RATE_MS_MIN), RATE_MS_MAX)
}
