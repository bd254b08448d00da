/**
 * Runs one script call to its end: by its digest, or by its text if the server does not know it;
 * again if it was refused because its keys are being moved; and never again if its outcome is
 * unknown.
 *
 * The deadline runs for each command, from when the client gets it until its reply is read. The
 * queue bounds the time that calls wait before that.
 */

import { steadyClock } from '../../../clock.ts'
import { type ErrorCode, TidegateError } from '../../../errors.ts'
import type { Meter } from '../../../observer.ts'
import { DEADLINE_MS_MAX } from '../../call-bounds.ts'
import { Deadlines, type Timed } from '../../deadlines.ts'
import type { RedisCaller, Waited } from '../client.ts'
import { slotOf } from '../cluster-slot.ts'
import { isNoScript, isTryAgain, isWrongServer, redisError } from '../redis-error.ts'
import type { ScriptCall } from '../scripts/script-arguments.ts'
import type { BatchCall } from './batch-call.ts'
import type { RoundTrip } from './round-trip.ts'

export interface RunnerOptions {
  /** Undefined follows the round trip. */
  readonly deadlineMs: number | undefined
  readonly roundTrip: RoundTrip
  /** Replicas that are to confirm, and how long to wait for them; undefined to wait for none. */
  readonly replication: { readonly replicas: number; readonly timeoutMs: number } | undefined
  /** Receives every command that has ended. */
  readonly meter?: Pick<Meter, 'command'> | undefined
}

/**
 * How many deadlines a command may take while many calls are under way. A server that is being hit
 * by a burst, on a machine that has much to do, may lose its processor for longer than a deadline;
 * the calls of a burst wait for longer anyway, and to admit all of them for that would be worse.
 */
const PATIENCE = 7

/** Gets the outcome of calls. One object may serve many calls, and gets each with its outcome. */
export interface Outcome<C extends ScriptCall = ScriptCall> {
  /** `isConfirmed` is false only if replicas had to confirm and have not. */
  onReply(reply: unknown, isConfirmed: boolean, call: C): void
  onError(error: TidegateError, call: C): void
}

/** The keys of a group arrive at their new node within milliseconds of each other. */
const TRY_AGAIN_DELAY_MS = 5

/** Shortest time between two reconnects, because the next connection may reach a replica, too. */
const RECONNECT_INTERVAL_MS = 1_000

/**
 * Commands that the server has left unanswered beyond their deadline. The client keeps each until
 * its connection ends, with the arguments of up to 128 charges, about 10 KB. A breaker stops far
 * earlier; this bounds the memory of a process without one.
 */
const UNANSWERED_MAX = 1_024

/** A replica that restarts or is busy is back sooner, and Sentinel takes about as long. */
const UNCONFIRMED_MS_MAX = 1_000

export class ScriptRunner {
  readonly #caller: RedisCaller
  readonly #options: RunnerOptions
  readonly #prompt: FlightTimes
  readonly #patient: FlightTimes
  readonly #unanswered = { count: 0 }
  #reconnectedMs = Number.NEGATIVE_INFINITY
  /** When replicas first failed to confirm since they last did. */
  #unconfirmedMs: number | undefined

  constructor(caller: RedisCaller, options: RunnerOptions) {
    this.#caller = caller
    this.#options = options
    const { roundTrip } = options
    const deadlineMs = () => options.deadlineMs ?? roundTrip.deadlineMs
    this.#patient = this.#times(() => patienceMs(deadlineMs()), undefined)
    this.#prompt = this.#times(deadlineMs, this.#patient)
  }

  get deadlineMs(): number {
    return this.#prompt.deadlineMs()
  }

  #times(deadlineMs: () => number, inBurst: FlightTimes | undefined): FlightTimes {
    const { roundTrip, meter } = this.#options
    const deadlines = new Deadlines(deadlineMs)
    const report = meter && reporter(meter, this.#caller)
    return { deadlineMs, deadlines, inBurst, roundTrip, report, unanswered: this.#unanswered }
  }

  /** `isBurst` returns true while many calls are under way; `nowMs` is the time of the call. */
  run<C extends ScriptCall>(
    call: C,
    outcome: Outcome<C>,
    isBurst = never,
    nowMs = steadyClock.now(),
  ): void {
    const times = isBurst() ? this.#patient : this.#prompt
    if (this.#unanswered.count >= UNANSWERED_MAX) {
      outcome.onError(silent(times.deadlineMs()), call)
      return
    }
    this.#attempt(new Flight(call, outcome, times, isBurst, nowMs), 'evalsha')
  }

  #attempt<C extends ScriptCall>(flight: Flight<C>, command: 'eval' | 'evalsha'): void {
    const { script, keys, args } = flight.call
    const text = command === 'eval' ? script.text : script.sha1
    const onError = (error: unknown) => this.#onError(flight, command, error)
    try {
      if (this.#options.replication === undefined) {
        const caller = this.#caller
        const onReply = (reply: unknown) => flight.succeed(reply, true)
        // Commands with more charges make more decisions a second by the client's own method.
        const isFast = command === 'evalsha' && chargesOf(flight.call)?.length === 1
        const isSent = isFast && caller.sendEvalsha?.(text, keys, args, onReply, onError)
        if (isSent !== true) caller[command](text, keys, args).then(onReply, onError)
        return
      }
      const { replicas, timeoutMs } = this.#options.replication
      const run = command === 'eval' ? this.#caller.evalAndWait : this.#caller.evalshaAndWait
      const onWaited = ({ reply, confirmed }: Waited) => {
        this.#onConfirmed(confirmed >= replicas)
        flight.succeed(reply, confirmed >= replicas)
      }
      run(text, keys, args, replicas, timeoutMs).then(onWaited, onError)
    } catch (error) {
      onError(error)
    }
  }

  #onError<C extends ScriptCall>(
    flight: Flight<C>,
    command: 'eval' | 'evalsha',
    error: unknown,
  ): void {
    if (flight.isSettled) {
      flight.answerLate()
      return
    }
    // Refused before the script ran, so this is its first run.
    if (command === 'evalsha' && isNoScript(error)) {
      flight.restart()
      this.#attempt(flight, 'eval')
      return
    }
    if (isTryAgain(error)) {
      steadyClock.schedule(() => {
        if (flight.isSettled) flight.answerLate()
        else this.#attempt(flight, 'evalsha')
      }, TRY_AGAIN_DELAY_MS)
      return
    }
    if (isWrongServer(error)) this.#reconnect()
    flight.fail(redisError(error))
  }

  /** A master without confirmations may be cut off, while another one has taken over. */
  #onConfirmed(isConfirmed: boolean): void {
    if (isConfirmed) {
      this.#unconfirmedMs = undefined
      return
    }
    const nowMs = steadyClock.now()
    this.#unconfirmedMs ??= nowMs
    if (nowMs - this.#unconfirmedMs >= UNCONFIRMED_MS_MAX) this.#reconnect()
  }

  /** A new connection finds the server that the name resolves to now. */
  #reconnect(): void {
    const nowMs = steadyClock.now()
    if (nowMs - this.#reconnectedMs < RECONNECT_INTERVAL_MS) return
    this.#reconnectedMs = nowMs
    this.#caller.reconnect?.()
  }
}

/** The deadline of a command, and the count of those that were left unanswered. */
interface FlightTimes {
  readonly deadlineMs: () => number
  readonly deadlines: Deadlines
  /** The times of a command that is due in a burst which began after it was sent. */
  readonly inBurst: FlightTimes | undefined
  readonly roundTrip: RoundTrip
  /** Reports a command that has ended; undefined without a meter. */
  readonly report: Report | undefined
  readonly unanswered: { count: number }
}

type Report = (call: ScriptCall, tookMs: number, error: ErrorCode | undefined) => void

function reporter(meter: Pick<Meter, 'command'>, { nodeOfSlot }: RedisCaller): Report {
  return (call, tookMs, error) => {
    const [key = ''] = call.keys
    const shard = nodeOfSlot?.(slotOf(key)) ?? ''
    const sent = chargesOf(call)
    meter.command(shard, sent?.length ?? 0, tookMs, error, sent)
  }
}

/** The charges that a call carries; undefined if it is not a charge. */
function chargesOf(call: ScriptCall | BatchCall): readonly object[] | undefined {
  return 'waiting' in call ? call.waiting : undefined
}

/** A command under way. Only a reply before the deadline counts. */
class Flight<C extends ScriptCall> implements Timed {
  readonly call: C
  readonly #outcome: Outcome<C>
  #times: FlightTimes
  readonly #isBurst: () => boolean
  #sentMs: number
  isSettled = false
  #isLate = false
  dueMs = 0
  before: Timed | undefined
  after: Timed | undefined

  constructor(
    call: C,
    outcome: Outcome<C>,
    times: FlightTimes,
    isBurst: () => boolean,
    sentMs: number,
  ) {
    this.call = call
    this.#outcome = outcome
    this.#times = times
    this.#isBurst = isBurst
    this.#sentMs = sentMs
    times.deadlines.add(this, this.#sentMs)
  }

  /** Restarts the deadline for another command of the call. */
  restart(): void {
    this.#times.deadlines.remove(this)
    this.#learn()
    this.#sentMs = steadyClock.now()
    this.#times.deadlines.add(this, this.#sentMs)
  }

  succeed(reply: unknown, isConfirmed: boolean): void {
    const tookMs = this.#learn()
    if (this.isSettled) {
      this.answerLate()
      return
    }
    this.isSettled = true
    this.#times.deadlines.remove(this)
    this.#times.report?.(this.call, tookMs, undefined)
    this.#outcome.onReply(reply, isConfirmed, this.call)
  }

  fail(error: TidegateError): void {
    this.isSettled = true
    this.#times.deadlines.remove(this)
    this.#times.report?.(this.call, steadyClock.now() - this.#sentMs, error.code)
    this.#outcome.onError(error, this.call)
  }

  expire(): void {
    const { inBurst } = this.#times
    if (inBurst !== undefined && this.#isBurst()) {
      this.#times = inBurst
      inBurst.deadlines.add(this, this.#sentMs)
      return
    }
    this.isSettled = true
    this.#isLate = true
    this.#times.unanswered.count++
    this.#times.report?.(this.call, steadyClock.now() - this.#sentMs, 'store-timeout')
    this.#outcome.onError(silent(this.#times.deadlineMs()), this.call)
  }

  /** Returns the time since the command was sent. */
  #learn(): number {
    const nowMs = steadyClock.now()
    const tookMs = nowMs - this.#sentMs
    this.#times.roundTrip.learn(tookMs, nowMs)
    return tookMs
  }

  /** Frees the memory of a command that was answered late. */
  answerLate(): void {
    if (!this.#isLate) return
    this.#isLate = false
    this.#times.unanswered.count--
  }
}

function never(): boolean {
  return false
}

/** At most the longest deadline of a round trip, unless the caller's own is longer. */
function patienceMs(deadlineMs: number): number {
  return Math.max(deadlineMs, Math.min(deadlineMs * PATIENCE, DEADLINE_MS_MAX))
}

function silent(deadlineMs: number): TidegateError {
  const message = `Redis has not answered within ${deadlineMs} ms; the outcome is unknown`
  return new TidegateError('store-timeout', message)
}
