/**
 * One direction of a connection through the proxy: bytes of one socket reach the other late, slowly
 * or not at all, but complete and in order. The end and the reset of a connection queue behind its
 * bytes, so a flow that hangs hides them too.
 */

import type { Socket } from 'node:net'

export interface FlowFaults {
  /** Added to every chunk. */
  readonly latencyMs?: number
  /** The maximum of a random addition to the latency. */
  readonly jitterMs?: number
  /** The bandwidth of each connection. */
  readonly bytesPerSecond?: number
  /** Drops all bytes while both sides stay connected. */
  readonly hang?: boolean
}

type Content = Buffer | 'end' | 'reset'

interface Item {
  readonly content: Content
  readonly arrivedMs: number
  /** The share of the jitter that it gets, from 0 to 1. */
  readonly luck: number
}

/** As much as a network buffers; then the sender's own buffers fill. */
const QUEUED_BYTES_MAX = 262_144

/**
 * With a bandwidth, the bytes of this time pass at once, because timers have a resolution of 1 ms.
 */
const PIECE_MS = 10

export class Flow {
  readonly #source: Socket
  readonly #target: Socket
  readonly #faults: () => FlowFaults
  #items: Item[] = []
  #queuedBytes = 0
  /** With a bandwidth, the time at which the last chunk has passed. */
  #freeAtMs = 0
  #timer: NodeJS.Timeout | undefined
  #isBlocked = false
  #isClosed = false

  constructor(source: Socket, target: Socket, faults: () => FlowFaults) {
    this.#source = source
    this.#target = target
    this.#faults = faults
    target.on('drain', () => {
      this.#isBlocked = false
      this.pump()
    })
  }

  push(content: Content): void {
    if (this.#isClosed) return
    this.#items.push({ content, arrivedMs: performance.now(), luck: Math.random() })
    if (content instanceof Buffer) this.#queuedBytes += content.length
    if (this.#queuedBytes > QUEUED_BYTES_MAX) this.#source.pause()
    this.pump()
  }

  /** Forwards the bytes that are due; also called after a change of the faults. */
  pump(): void {
    clearTimeout(this.#timer)
    for (let item = this.#items[0]; item !== undefined; item = this.#items[0]) {
      if (this.#faults().hang === true || this.#isBlocked) return
      const part = partOf(item.content, this.#faults())
      const dueMs = this.#dueMs(item, part)
      const waitMs = dueMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.pump(), Math.ceil(waitMs))
        return
      }
      // Idle bandwidth is not saved up: delayed chunks do not pass all at once.
      this.#freeAtMs = Math.max(dueMs, performance.now() - PIECE_MS)
      this.#pass(item, part)
    }
  }

  /** Drops all queued and later bytes. */
  close(): void {
    this.#isClosed = true
    this.#items = []
    this.#queuedBytes = 0
    clearTimeout(this.#timer)
    this.#source.resume()
  }

  #dueMs({ arrivedMs, luck }: Item, part: Content): number {
    const { latencyMs = 0, jitterMs = 0, bytesPerSecond } = this.#faults()
    const dueMs = arrivedMs + latencyMs + luck * jitterMs
    if (bytesPerSecond === undefined || !(part instanceof Buffer)) return dueMs
    return Math.max(dueMs, this.#freeAtMs) + (part.length / bytesPerSecond) * 1000
  }

  #pass(item: Item, part: Content): void {
    if (!(part instanceof Buffer && item.content instanceof Buffer)) {
      this.close()
      if (part === 'end') this.#target.end()
      else resetAfterWrites(this.#target)
      return
    }
    const content = item.content.subarray(part.length)
    if (content.length > 0) this.#items[0] = { ...item, content }
    else this.#items.shift()
    this.#queuedBytes -= part.length
    if (this.#queuedBytes <= QUEUED_BYTES_MAX) this.#source.resume()
    if (!this.#target.destroyed) this.#isBlocked = !this.#target.write(part)
  }
}

/** With a bandwidth, only the bytes of `PIECE_MS`. */
function partOf(content: Content, { bytesPerSecond }: FlowFaults): Content {
  if (bytesPerSecond === undefined || !(content instanceof Buffer)) return content
  return content.subarray(0, Math.max(1, Math.floor((bytesPerSecond * PIECE_MS) / 1000)))
}

/** Resets after the pending bytes are written. */
function resetAfterWrites(socket: Socket): void {
  if (socket.writableLength === 0) reset(socket)
  else socket.write('', () => reset(socket))
}

/** Node would delay the reset until the socket is connected, which may never happen. */
export function reset(socket: Socket): void {
  if (socket.connecting) socket.destroy()
  else socket.resetAndDestroy()
}
