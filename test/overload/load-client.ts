/**
 * A process that sends requests at a fixed rate over many connections: a slow server does not get
 * fewer of them. Latencies count from the time at which a request was due, so that a late client or
 * a full connection never hides a slow server.
 *
 * The first argument is a `LoadPlan` as JSON. Sends `ready` once all connections are open, starts
 * at the message `go`, and sends a `LoadReport`.
 */

import { connect, type Socket } from 'node:net'
import { LOOPBACK } from '../support/servers/ports.ts'

export interface LoadPlan {
  readonly port: number
  readonly path: string
  readonly connections: number
  readonly perSecond: number
  readonly durationMs: number
  /** How long responses are awaited after the end. Default: 5,000. */
  readonly graceMs?: number
}

export interface LoadReport {
  readonly sent: number
  /** The number of responses by status. */
  readonly statuses: Readonly<Record<number, number>>
  /** Responses that arrived before the end of the load. */
  readonly inTime: number
  /** Requests without a response after the end of the load and the grace period. */
  readonly unanswered: number
  /** Latencies of responses with 200 in milliseconds, sorted. */
  readonly latenciesMs: Float64Array
  /** Latencies of requests that were due after the first second, in rising order. */
  readonly settledMs: Float64Array
  /** How late the client itself sent requests, sorted. */
  readonly latenessMs: Float64Array
  readonly retryAfters: Readonly<Record<string, number>>
}

const TICK_MS = 1

/** The time in which the server adapts to the load. */
const SETTLING_MS = 1_000

/** Responses that arrive later than this after the end count as missing, unless the plan says. */
const GRACE_MS = 5_000

/** Connections opened at a time; the backlog of a listener is 511. */
const OPENING_MAX = 200

const plan: LoadPlan = JSON.parse(process.argv[2] ?? '{}')
const request = `GET ${plan.path} HTTP/1.1\r\nhost: gateway.test\r\n\r\n`
const statuses: Record<number, number> = {}
const retryAfters: Record<string, number> = {}
const latencies = new Float64Array(Math.ceil((plan.perSecond * plan.durationMs) / 1_000) + 1)
let latencyCount = 0
const settled = new Float64Array(latencies.length)
let settledCount = 0
let settlesMs = Number.POSITIVE_INFINITY
const lateness = new Float64Array(latencies.length)
let latenessCount = 0
let sent = 0
let answered = 0
let inTime = 0
let endMs = Number.POSITIVE_INFINITY
const free: Line[] = []
/** Due times of requests that wait for a free connection. */
const waiting: number[] = []
let waitingAt = 0

class Line {
  readonly #socket: Socket
  #dueMs = 0
  #text = ''

  constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.setEncoding('latin1')
    socket.on('data', (text) => this.#read(String(text)))
    socket.on('error', () => socket.destroy())
  }

  send(dueMs: number): void {
    this.#dueMs = dueMs
    this.#socket.write(request, 'latin1')
  }

  #read(text: string): void {
    this.#text += text
    const headEndsAt = this.#text.indexOf('\r\n\r\n')
    if (headEndsAt < 0) return
    const head = this.#text.slice(0, headEndsAt).toLowerCase()
    const length = Number(/\r\ncontent-length: (\d+)/.exec(head)?.[1] ?? 0)
    if (this.#text.length < headEndsAt + 4 + length) return
    this.#text = ''
    answered += 1
    if (performance.now() <= endMs) inTime += 1
    const status = Number(head.slice(9, 12))
    statuses[status] = (statuses[status] ?? 0) + 1
    if (status === 200) this.#note(performance.now() - this.#dueMs)
    else {
      const wait = /\r\nretry-after: (\d+)/.exec(head)?.[1] ?? 'none'
      retryAfters[wait] = (retryAfters[wait] ?? 0) + 1
    }
    const dueMs = waiting[waitingAt]
    if (dueMs === undefined) free.push(this)
    else {
      waitingAt += 1
      this.send(dueMs)
    }
  }

  #note(latencyMs: number): void {
    latencies[latencyCount++] = latencyMs
    if (this.#dueMs >= settlesMs) settled[settledCount++] = latencyMs
  }
}

function open(): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port: plan.port, host: LOOPBACK }, () => {
      socket.off('error', reject)
      free.push(new Line(socket))
      resolve()
    })
    socket.once('error', reject)
  })
}

async function openAll(): Promise<void> {
  for (let left = plan.connections; left > 0; left -= OPENING_MAX) {
    await Promise.all(Array.from({ length: Math.min(left, OPENING_MAX) }, open))
  }
}

function run(): void {
  const startMs = performance.now()
  endMs = startMs + plan.durationMs
  settlesMs = startMs + SETTLING_MS
  const total = Math.floor((plan.perSecond * plan.durationMs) / 1_000)
  const timer = setInterval(() => {
    const nowMs = performance.now()
    const due = Math.min(total, Math.floor(((nowMs - startMs) * plan.perSecond) / 1_000) + 1)
    for (; sent < due; sent++) {
      const dueMs = startMs + (sent * 1_000) / plan.perSecond
      lateness[latenessCount++] = nowMs - dueMs
      const line = free.shift()
      if (line === undefined) waiting.push(dueMs)
      else line.send(dueMs)
    }
    const isLate = nowMs > endMs + (plan.graceMs ?? GRACE_MS)
    if (answered < total && !isLate) return
    clearInterval(timer)
    report(total)
  }, TICK_MS)
}

function report(total: number): void {
  const latenciesMs = latencies.slice(0, latencyCount).sort()
  const answer: LoadReport = {
    sent: total,
    statuses,
    inTime,
    unanswered: total - answered,
    latenciesMs,
    settledMs: settled.slice(0, settledCount).sort(),
    latenessMs: lateness.slice(0, latenessCount).sort(),
    retryAfters,
  }
  process.send?.(answer, () => process.exit())
}

process.on('disconnect', () => process.exit())
process.once('message', () => run())
await openAll()
process.send?.('ready')
