/**
 * The connection to one other region: one HTTP/2 session, and attempts side by side when it breaks.
 * Frames of one turn of the event loop travel in one message.
 *
 * It never sends a frame twice: the outcome of a frame without an answer is unknown. A region that
 * leaves several messages unanswered counts as cut off, so that calls fail at once; a ping every
 * second finds out when it is back. Calls of a process that has just started wait for the end of
 * its first attempt to connect, at most for the deadline.
 */

import type { ClientHttp2Session } from 'node:http2'
import { TidegateError } from 'tidegate'
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
import { LinkAttempts } from './link-attempts.ts'
import { post, RefusedMessage } from './link-post.ts'
import { sessionsTo } from './link-session.ts'

export interface LinkClientOptions {
  readonly topology: Topology
  readonly peer: string
  readonly tls: { readonly cert: Buffer; readonly key: Buffer; readonly ca: Buffer }
  readonly token: string | undefined
  readonly deadlineMs: number
  /**
   * Called after the first attempt to connect, when the link is up or down, and once for each
   * reason for which the other region refuses this one.
   */
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
const CONNECT_MS_MIN = 2_000
const CONNECT_MS_MAX = 5_000

/** The processes of a region lose a link together; half of it is random. */
const RECONNECT_MS = 50

/** Pings that are asked for are not closer to one another than this. */
const HURRY_MS_MIN = 100

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
  readonly #attempts: LinkAttempts
  #session: ClientHttp2Session | undefined
  #pingedMs = -Infinity
  #queue: Waiting[] = []
  #isScheduled = false
  #waiting = 0
  #unanswered = 0
  #isUp = false
  /** The last reason of a refusal, since the link was up. */
  #refusal: string | undefined
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
    const { topology, peer, tls, token } = options
    const address = `${topology.endpoints.get(peer)}`
    const connectMs = Math.max(CONNECT_MS_MIN, CONNECT_DEADLINES * options.deadlineMs)
    this.#attempts = new LinkAttempts({
      connectMs: Math.min(CONNECT_MS_MAX, connectMs),
      open: sessionsTo({ peer, address, tls, hasToken: token !== undefined }),
      greet: (session) => this.#greet(session),
      onAnswered: (session, problem) => this.#adopt(session, problem),
      onFailed: (problem) => this.#setUp(false, problem),
    })
    this.#attempts.start()
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
    this.#attempts.stop()
    this.#session?.destroy()
    this.#endFirstAttempt()
    this.#fail(this.#queue.splice(0), cutOff(this.peer, 'the link is closed'))
  }

  /** The other region may be reached again: finds out now, and not at the next ping or attempt. */
  hurry(): void {
    if (this.#isUp || this.#isClosed) return
    const isSilent = this.#unanswered > 0
    if (this.#session === undefined) this.#attempts.hurry()
    else if (isSilent && performance.now() - this.#pingedMs >= HURRY_MS_MIN) this.#sendPing()
  }

  #adopt(session: ClientHttp2Session, problem: string | undefined): void {
    this.#session = session
    this.#unanswered = 0
    session.on('error', (error: NodeJS.ErrnoException) => {
      this.#problem = error.code ?? 'the connection failed'
    })
    session.once('close', () => this.#onClose(session))
    this.#setUp(problem === undefined, problem)
  }

  #onClose(session: ClientHttp2Session): void {
    if (this.#session !== session) return
    this.#session = undefined
    this.#setUp(false, this.#problem ?? 'the connection was closed')
    if (!this.#isClosed) this.#attempts.start((RECONNECT_MS * (1 + Math.random())) / 2)
  }

  #setUp(isUp: boolean, problem: string | undefined): void {
    this.#problem = problem
    const isChanged = this.#isUp !== isUp || this.#early !== undefined
    this.#isUp = isUp
    if (isUp) this.#refusal = undefined
    this.#endFirstAttempt()
    if (isChanged && !this.#isClosed) this.#options.onChange(isUp, problem)
  }

  #sendPing(): void {
    const session = this.#session
    if (session === undefined || session.destroyed) return
    this.#greet(session).then(
      (problem) => {
        if (this.#session === session) this.#setUp(problem === undefined, problem)
      },
      () => {
        if (this.#unanswered >= UNANSWERED_MAX) session.destroy()
      },
    )
  }

  /**
   * Sends a ping. Resolves with the reason if the link is not up all the same; rejects if the
   * region does not answer.
   */
  async #greet(session: ClientHttp2Session): Promise<string | undefined> {
    const sentMs = performance.now()
    const sentAt = Date.now()
    this.#pingedMs = sentMs
    const { deadlineMs } = this.#options
    const frame: Frame = { type: frameTypes.ping, body: new Uint8Array(0) }
    try {
      const pingMs = Math.max(PING_DEADLINE_MS_MIN, deadlineMs)
      const [pong] = await this.#exchange(session, [frame], pingMs)
      if (pong?.type === answerTypes.ok && pong.body.length === 8) {
        const remote = Buffer.from(pong.body).readDoubleBE(0)
        this.#offset.add({ sentAt, remote, elapsedMs: performance.now() - sentMs })
      }
    } catch (error) {
      if (error instanceof RefusedMessage) return error.message
      throw error
    }
    const { roundTripMs = 0 } = this.#offset
    if (roundTripMs <= deadlineMs) return undefined
    return `a round trip of ${Math.round(roundTripMs)} ms exceeds the deadline`
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
    const session = this.#session
    if (session === undefined || session.destroyed) {
      this.#fail(waiting, cutOff(this.peer, this.#problem))
      return
    }
    this.#exchange(session, frames, this.#options.deadlineMs, onLate).then(
      (answers) => {
        this.#waiting -= waiting.length
        for (const [at, one] of waiting.entries()) settle(one, answers[at], this.peer)
      },
      (error: unknown) => {
        const isKnown = error instanceof TidegateError
        this.#fail(waiting, isKnown ? error : cutOff(this.peer, problemOf(error)))
      },
    )
  }

  #fail(waiting: readonly Waiting[], error: unknown): void {
    this.#waiting -= waiting.length
    for (const one of waiting) one.reject(error)
  }

  async #exchange(
    session: ClientHttp2Session,
    frames: readonly Frame[],
    deadlineMs: number,
    onLate?: (answers: readonly Frame[]) => void,
  ): Promise<readonly Frame[]> {
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
      throw error
    }
  }

  /** Counts silence; a refusal keeps the region cut off until a ping is answered. */
  #note(error: unknown): void {
    if (error instanceof RefusedMessage) {
      const isNew = this.#refusal !== error.message
      this.#refusal = error.message
      const isNoted = this.#isUp || this.#early !== undefined
      this.#setUp(false, error.message)
      if (isNew && !isNoted) this.#options.onChange(false, error.message)
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
