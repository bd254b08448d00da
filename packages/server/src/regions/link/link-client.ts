/**
 * The connection to one other region: one HTTP/2 session, opened again with jitter when it breaks.
 * Frames of one turn of the event loop travel in one message.
 *
 * It never sends a frame twice: the outcome of a frame without an answer is unknown. A region that
 * leaves several messages unanswered counts as cut off, so that calls fail at once; a ping every
 * second finds out when it is back. Calls of a process that has just started wait for the end of
 * its first attempt to connect, at most for the deadline.
 */

import { type ClientHttp2Session, connect } from 'node:http2'
import type { PeerCertificate } from 'node:tls'
import { TidegateError } from 'tidegate'
import { alternativeNames } from '../../config/alternative-names.ts'
import type { Topology } from '../topology.ts'
import { MessageError } from './bytes.ts'
import { ClockOffset } from './clock-offset.ts'
import {
  answerTypes,
  decodeFrames,
  encodeMessage,
  FRAME_BYTES,
  FRAMES_MAX,
  type Frame,
  frameTypes,
  LINK_VERSION,
  MESSAGE_BYTES_MAX,
} from './frames.ts'
import { post, RefusedMessage } from './link-post.ts'

export interface LinkClientOptions {
  readonly topology: Topology
  readonly peer: string
  readonly tls: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer }
  readonly token: string | undefined
  readonly deadlineMs: number
  onChange(isUp: boolean, problem: string | undefined): void
  /** The other region refuses this one, because operators have given it up. */
  onForgotten(): void
}

export interface PeerState {
  readonly region: string
  readonly isUp: boolean
  /** Why it is not up. */
  readonly problem: string | undefined
  readonly roundTripMs: number | undefined
  /** How far its wall clock is ahead of the one here, with an error of half a round trip. */
  readonly clockOffsetMs: number | undefined
  readonly sentBytes: number
  readonly receivedBytes: number
  readonly messages: number
}

interface Waiting {
  readonly frame: Frame
  readonly onLate: ((body: Uint8Array) => void) | undefined
  resolve(body: Uint8Array): void
  reject(error: unknown): void
}

const PING_MS = 1_000

/** Longer than any round trip on this planet, and short enough to notice a dead connection. */
const PING_DEADLINE_MS_MIN = 1_000

/** For TCP and TLS, which take three round trips; a round trip takes a deadline at most. */
const CONNECT_DEADLINES = 4
const CONNECT_MS_MIN = 1_000
const CONNECT_MS_MAX = 2_000

/** A few attempts a second, so that regions share limits soon after a cut. */
const RECONNECT_FIRST_MS = 50
const RECONNECT_MS_MAX = 500

/** Messages in a row without an answer, after which the region counts as cut off. */
const UNANSWERED_MAX = 3

/** Frames that wait for an answer: some 10 MB at most. More of them are refused. */
const WAITING_MAX = 65_536

const HEADER_BYTES = 128

export class LinkClient {
  readonly peer: string
  readonly #options: LinkClientOptions
  readonly #offset = new ClockOffset()
  readonly #ping: NodeJS.Timeout
  #session: ClientHttp2Session | undefined
  #reconnect: NodeJS.Timeout | undefined
  #attempts = 0
  #queue: Waiting[] = []
  #isScheduled = false
  #waiting = 0
  #unanswered = 0
  #isUp = false
  #isClosed = false
  /** Calls that wait for the first attempt to connect; undefined after it. */
  #early: Set<() => void> | undefined = new Set()
  #problem: string | undefined = 'not connected yet'
  #sentBytes = 0
  #receivedBytes = 0
  #messages = 0

  constructor(options: LinkClientOptions) {
    this.peer = options.peer
    this.#options = options
    this.#open()
    this.#ping = setInterval(() => this.#sendPing(), PING_MS)
    this.#ping.unref()
  }

  /** The time of a message and its answer; undefined before the first ping. */
  get roundTripMs(): number | undefined {
    return this.#offset.roundTripMs
  }

  get isUp(): boolean {
    return this.#isUp
  }

  /**
   * Resolves with the answer; rejects with a `TidegateError` of a store. `onLate` is called with an
   * answer that arrives after the deadline.
   */
  request(
    type: number,
    body: Uint8Array,
    onLate?: (body: Uint8Array) => void,
  ): Promise<Uint8Array> {
    if (!this.#isUp) {
      if (this.#early === undefined) return Promise.reject(cutOff(this.peer, this.#problem))
      return this.#firstAttempt(this.#early).then(() => this.request(type, body, onLate))
    }
    if (this.#waiting >= WAITING_MAX) {
      const text = `${WAITING_MAX} frames wait for the region ${this.peer}`
      return Promise.reject(new TidegateError('overloaded', text))
    }
    return new Promise((resolve, reject) => {
      this.#waiting++
      this.#queue.push({ frame: { type, body }, onLate, resolve, reject })
      if (this.#isScheduled) return
      this.#isScheduled = true
      setImmediate(() => this.#flush())
    })
  }

  /** Resolves when the first attempt to connect has ended, or rejects after the deadline. */
  #firstAttempt(early: Set<() => void>): Promise<void> {
    if (early.size >= WAITING_MAX) return Promise.reject(cutOff(this.peer, this.#problem))
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        early.delete(end)
        reject(cutOff(this.peer, this.#problem))
      }, this.#options.deadlineMs)
      const end = () => {
        clearTimeout(timer)
        resolve()
      }
      early.add(end)
    })
  }

  #endFirstAttempt(): void {
    const early = this.#early
    this.#early = undefined
    for (const end of early ?? []) end()
  }

  state(): PeerState {
    return {
      region: this.peer,
      isUp: this.#isUp,
      problem: this.#isUp ? undefined : this.#problem,
      roundTripMs: this.#offset.roundTripMs,
      clockOffsetMs: this.#offset.offsetMs,
      sentBytes: this.#sentBytes,
      receivedBytes: this.#receivedBytes,
      messages: this.#messages,
    }
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#ping)
    clearTimeout(this.#reconnect)
    this.#session?.destroy()
    this.#endFirstAttempt()
    this.#fail(this.#queue.splice(0), cutOff(this.peer, 'the link is closed'))
  }

  #open(): void {
    if (this.#isClosed) return
    const { topology, tls, token } = this.#options
    const session = connect(`https://${topology.endpoints.get(this.peer)}`, {
      ca: tls.ca,
      ...(token === undefined ? { cert: tls.cert, key: tls.key } : undefined),
      minVersion: 'TLSv1.2',
      checkServerIdentity: (_, certificate) => wrongRegion(this.peer, certificate),
      settings: { initialWindowSize: MESSAGE_BYTES_MAX, enablePush: false },
    })
    this.#session = session
    session.on('error', (error: NodeJS.ErrnoException) => {
      this.#problem = error.code ?? 'the connection failed'
    })
    const connectMs = Math.max(CONNECT_MS_MIN, CONNECT_DEADLINES * this.#options.deadlineMs)
    const timer = setTimeout(
      () => {
        this.#problem = 'it does not accept connections'
        session.destroy()
      },
      Math.min(CONNECT_MS_MAX, connectMs),
    ).unref()
    session.once('connect', () => {
      clearTimeout(timer)
      this.#sendPing()
    })
    session.once('close', () => {
      clearTimeout(timer)
      this.#onClose(session)
    })
    session.unref()
  }

  #onClose(session: ClientHttp2Session): void {
    if (this.#session !== session) return
    this.#session = undefined
    this.#setUp(false, this.#problem ?? 'the connection was closed')
    if (this.#isClosed) return
    const mostMs = Math.min(RECONNECT_MS_MAX, RECONNECT_FIRST_MS * 2 ** this.#attempts++)
    // Half of it is random, so that the processes of a region do not connect at the same time.
    const delayMs = (mostMs * (1 + Math.random())) / 2
    this.#reconnect = setTimeout(() => this.#open(), delayMs).unref()
  }

  #setUp(isUp: boolean, problem: string | undefined): void {
    this.#problem = problem
    const isChanged = this.#isUp !== isUp
    this.#isUp = isUp
    this.#endFirstAttempt()
    if (!isChanged) return
    if (isUp) this.#attempts = 0
    this.#options.onChange(isUp, problem)
  }

  #sendPing(): void {
    const session = this.#session
    if (session === undefined || session.connecting || session.destroyed) return
    const sentMs = performance.now()
    const sentAt = Date.now()
    const frame: Frame = { type: frameTypes.ping, body: new Uint8Array(0) }
    const { deadlineMs } = this.#options
    this.#exchange([frame], Math.max(PING_DEADLINE_MS_MIN, deadlineMs)).then(
      ([pong]) => {
        const elapsedMs = performance.now() - sentMs
        if (pong?.type === answerTypes.ok && pong.body.length === 8) {
          const remote = Buffer.from(pong.body).readDoubleBE(0)
          this.#offset.add({ sentAt, remote, elapsedMs })
        }
        const { roundTripMs = 0 } = this.#offset
        const isTooFar = roundTripMs > deadlineMs
        const late = `a round trip of ${Math.round(roundTripMs)} ms exceeds the deadline`
        this.#setUp(!isTooFar, isTooFar ? late : undefined)
      },
      () => {
        if (this.#unanswered >= UNANSWERED_MAX) session.destroy()
      },
    )
  }

  /** Sends the frames of this turn in as few messages as their bytes allow. */
  #flush(): void {
    this.#isScheduled = false
    const queue = this.#queue
    this.#queue = []
    let first = 0
    let bytes = HEADER_BYTES
    for (const [at, { frame }] of queue.entries()) {
      const size = frame.body.length + FRAME_BYTES
      if (at > first && (bytes + size > MESSAGE_BYTES_MAX || at - first >= FRAMES_MAX)) {
        this.#send(queue.slice(first, at))
        first = at
        bytes = HEADER_BYTES
      }
      bytes += size
    }
    if (first < queue.length) this.#send(first === 0 ? queue : queue.slice(first))
  }

  #send(waiting: readonly Waiting[]): void {
    const frames = waiting.map(({ frame }) => frame)
    const onLate = (answers: readonly Frame[]) => {
      for (const [at, one] of waiting.entries()) {
        const answer = answers[at]
        if (answer?.type === answerTypes.ok) one.onLate?.(answer.body)
      }
    }
    this.#exchange(frames, this.#options.deadlineMs, onLate).then(
      (answers) => {
        this.#waiting -= waiting.length
        for (const [at, one] of waiting.entries()) settle(one, answers[at], this.peer)
      },
      (error: unknown) => this.#fail(waiting, error),
    )
  }

  #fail(waiting: readonly Waiting[], error: unknown): void {
    this.#waiting -= waiting.length
    for (const one of waiting) one.reject(error)
  }

  async #exchange(
    frames: readonly Frame[],
    deadlineMs: number,
    onLate?: (answers: readonly Frame[]) => void,
  ): Promise<readonly Frame[]> {
    const session = this.#session
    if (session === undefined || session.destroyed) throw cutOff(this.peer, this.#problem)
    const { topology, token } = this.#options
    const { self: from, fingerprint } = topology
    const message = encodeMessage({ version: LINK_VERSION, from, fingerprint }, frames)
    this.#messages++
    this.#sentBytes += message.length
    try {
      const late = (bytes: Buffer) => onLate?.(framesOf(bytes))
      const answer = await post(session, message, token, { deadlineMs, onLate: late })
      this.#unanswered = 0
      this.#receivedBytes += answer.length
      return decodeFrames(answer)
    } catch (error) {
      this.#note(error)
      throw error instanceof TidegateError ? error : cutOff(this.peer, problemOf(error))
    }
  }

  /** Counts silence; a refusal keeps the region cut off until a ping is answered. */
  #note(error: unknown): void {
    if (error instanceof RefusedMessage) {
      this.#setUp(false, error.message)
      if (error.isForgotten) this.#options.onForgotten()
    }
    if (!(error instanceof TidegateError) || error.code !== 'store-timeout') return
    this.#unanswered++
    if (this.#unanswered >= UNANSWERED_MAX) this.#setUp(false, 'it does not answer')
  }
}

function framesOf(bytes: Buffer): readonly Frame[] {
  try {
    return decodeFrames(bytes)
  } catch {
    return []
  }
}

function settle(one: Waiting, answer: Frame | undefined, peer: string): void {
  if (answer?.type === answerTypes.ok) one.resolve(answer.body)
  else one.reject(new TidegateError('store-failed', `the region ${peer} could not decide`))
}

function cutOff(peer: string, problem: string | undefined): TidegateError {
  const reason = problem === undefined ? '' : `: ${problem}`
  return new TidegateError('store-unreachable', `the region ${peer} cannot be reached${reason}`)
}

function problemOf(error: unknown): string {
  if (error instanceof MessageError) return `its answer is not valid: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}

/** The certificate is valid for the link; it must also be that of the region. */
function wrongRegion(peer: string, { subjectaltname = '' }: PeerCertificate): Error | undefined {
  if (alternativeNames(subjectaltname).includes(peer)) return undefined
  return Object.assign(new Error(`the certificate is not that of the region ${peer}`), {
    code: `the certificate has no DNS name ${peer}`,
  })
}
