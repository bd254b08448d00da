/**
 * The body of a request as it arrives: no faster than it is taken, no more than is allowed, and
 * not so slowly that it only holds a connection. It is handed over when all of it is here, or, of
 * a large one, when its beginning is: until then a client that sends slowly holds nothing but its
 * own connection. What is held is bounded, for each body and for all of them.
 */

import { Readable } from 'node:stream'
import type { ArrivingBytes, BodyErrorCode, ByteReceiver } from './channel.ts'
import type { ClientRequest } from './client-request.ts'
import { HeldBytes } from './held-bytes.ts'
import type { SlowClients } from './slow-clients.ts'

export interface BodyLimits {
  readonly bytesMax: number
  readonly bytesPerSecondMin: number
  /** For all of it to arrive. */
  readonly arrivalMsMax: number
  readonly slowClients: SlowClients
  readonly held: HeldBodies
}

/** What is held of all bodies that have not been handed over. */
export interface HeldBodies {
  bytes: number
}

/** Bodies of most requests to an API are smaller, and are handed over whole. */
const HELD_BYTES_MAX = 64 * 1_024

/** A thousand such bodies. Beyond it, bodies are handed over with what there is of them. */
const HELD_BYTES_TOTAL_MAX = 64 * 1_024 ** 2

/** The rate is measured over this part of the time that all of a body may take. */
const RATES_PER_ARRIVAL = 6

/** Shorter, a hiccup of the network would look like a slow client. */
const RATE_MS_MIN = 1_000

/** Long enough for a hiccup, short enough that slow clients do not pile up. */
const RATE_MS_MAX = 5_000

/** Smaller pieces travel together where nobody waits for them. */
const PIECE_BYTES_MIN = 4 * 1_024

/** All of a body, or one that is still arriving. Rejects where it is not as it must be. */
export function requestBody(
  { channel, hasEnded }: Pick<ClientRequest, 'channel' | 'hasEnded'>,
  limits: BodyLimits,
): Promise<Buffer | Readable> {
  if (hasEnded || channel.isGone) return Promise.reject(bodyError('TIDEGATE_BODY_ABORTED'))
  return new Promise((resolve, reject) => {
    new ArrivingBody(channel.arriving(), limits, { resolve, reject }).start()
  })
}

interface Receiver {
  resolve(body: Buffer | Readable): void
  reject(error: Error): void
}

class ArrivingBody implements ByteReceiver {
  readonly #incoming: ArrivingBytes
  readonly #limits: BodyLimits
  readonly #receiver: Receiver
  /** Before it is handed over, all of it; then, what has not been pushed. */
  readonly #held = new HeldBytes()
  readonly #startMs = performance.now()
  #bytes = 0
  /** When the rate began to be measured, and the bytes that had arrived then. */
  #rateSinceMs = this.#startMs
  #rateSinceBytes = 0
  #hasEnded = false
  /** Once it is handed over while it arrives. */
  #stream: Readable | undefined

  constructor(incoming: ArrivingBytes, limits: BodyLimits, receiver: Receiver) {
    this.#incoming = incoming
    this.#limits = limits
    this.#receiver = receiver
  }

  start(): void {
    this.#limits.slowClients.watch(this.#look)
    this.#incoming.start(this)
  }

  onData(chunk: Buffer): void {
    const { bytesMax, held } = this.#limits
    this.#bytes += chunk.length
    if (this.#bytes > bytesMax) {
      this.#fail('TIDEGATE_BODY_TOO_LARGE')
      return
    }
    this.#held.add(chunk)
    if (this.#stream !== undefined) {
      const isWaitedFor = this.#stream.readableLength === 0
      if (isWaitedFor || this.#held.length >= PIECE_BYTES_MIN) this.#push(this.#stream)
    } else {
      held.bytes += chunk.length
      const isMuch = this.#held.length >= HELD_BYTES_MAX || held.bytes > HELD_BYTES_TOTAL_MAX
      if (isMuch) this.#handOver()
    }
  }

  onEnd(): void {
    this.#hasEnded = true
    if (this.#stream !== undefined) {
      this.#limits.slowClients.forget(this.#look)
      this.#push(this.#stream)
      this.#stream.push(null)
      return
    }
    this.#stop()
    this.#receiver.resolve(this.#letGo())
  }

  onBroken(code: BodyErrorCode): void {
    if (!this.#hasEnded) this.#fail(code)
  }

  readonly #look = (nowMs: number) => {
    const isLate = nowMs - this.#startMs > this.#limits.arrivalMsMax
    if (isLate || this.#isSlow(nowMs)) this.#fail('TIDEGATE_BODY_TOO_SLOW')
  }

  #isSlow(nowMs: number): boolean {
    const { bytesPerSecondMin, arrivalMsMax } = this.#limits
    const passedMs = nowMs - this.#rateSinceMs
    const isMeasured = passedMs >= rateMs(arrivalMsMax)
    // A body that is paused waits for us.
    const { isPaused } = this.#incoming
    if (!isMeasured && !isPaused) return false
    const arrivedBytes = this.#bytes - this.#rateSinceBytes
    this.#rateSinceMs = nowMs
    this.#rateSinceBytes = this.#bytes
    return !isPaused && arrivedBytes < (bytesPerSecondMin * passedMs) / 1_000
  }

  #handOver(): void {
    const incoming = this.#incoming
    incoming.pause()
    const stream = new Readable({
      highWaterMark: HELD_BYTES_MAX,
      read: () => {
        if (this.#held.length === 0 || this.#push(stream)) incoming.resume()
      },
      destroy: (error, done) => {
        this.#stop()
        done(error)
      },
    })
    // Whoever takes it listens too, but it may break off before anybody does.
    stream.on('error', () => undefined)
    stream.push(this.#letGo())
    this.#stream = stream
    this.#receiver.resolve(stream)
  }

  #push(stream: Readable): boolean {
    if (this.#held.length === 0 || stream.push(this.#held.take())) return true
    this.#incoming.pause()
    return false
  }

  #fail(code: BodyErrorCode): void {
    const error = bodyError(code)
    if (this.#stream !== undefined) {
      this.#stream.destroy(error)
      return
    }
    this.#letGo()
    this.#stop()
    this.#receiver.reject(error)
  }

  #letGo(): Buffer {
    this.#limits.held.bytes -= this.#held.length
    return this.#held.take()
  }

  #stop(): void {
    this.#limits.slowClients.forget(this.#look)
    this.#incoming.stop()
  }
}

function rateMs(arrivalMsMax: number): number {
  return Math.min(Math.max(arrivalMsMax / RATES_PER_ARRIVAL, RATE_MS_MIN), RATE_MS_MAX)
}

function bodyError(code: BodyErrorCode): Error {
  return Object.assign(new Error('the body of the request is not as it must be'), { code })
}
