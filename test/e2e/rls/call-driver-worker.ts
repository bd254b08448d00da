/** The process of `startCallDriver`. */

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { machineNowMs } from '../../support/faults/machine-clock.ts'
import type { DrivenCall, DriverKey, DriverOrder, DriverPlan } from './call-driver.ts'
import { call, frame, message, PREFACE, rateLimitRequest, types, uint32 } from './raw-http2.ts'

const plan: DriverPlan = JSON.parse(process.argv[2] ?? '')

/** Later responses count as missing. */
const ANSWER_MS_MAX = 5_000

interface OpenCall {
  readonly key: string
  readonly mark: string
  readonly startMs: number
  endMs: number
  outcome: string
}

class Caller {
  readonly #socket: Socket
  readonly #open = new Map<number, OpenCall>()
  #nextId = 1
  #rest: Buffer = Buffer.alloc(0)

  constructor(socket: Socket) {
    this.#socket = socket
    const windows = Buffer.concat([Buffer.from([0, 4]), uint32(0x3fff_ffff)])
    socket.write(Buffer.concat([PREFACE, frame(types.settings, 0, 0, windows)]))
    socket.write(frame(types.windowUpdate, 0, 0, uint32(0x3fff_ffff)))
    socket.on('data', (chunk) => this.#read(chunk, machineNowMs()))
  }

  get underWay(): number {
    return this.#open.size
  }

  send(key: string, value: string, mark: string): OpenCall {
    const id = this.#nextId
    this.#nextId += 2
    const bytes = call(id, message(rateLimitRequest('d', key, value)))
    const one = { key, mark, startMs: machineNowMs(), endMs: Number.NaN, outcome: '' }
    this.#open.set(id, one)
    this.#socket.write(bytes)
    return one
  }

  #read(chunk: Buffer, nowMs: number): void {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let from = 0
    while (bytes.length - from >= 9) {
      const end = from + 9 + bytes.readUIntBE(from, 3)
      if (end > bytes.length) break
      this.#take(bytes, from, end, nowMs)
      from = end
    }
    this.#rest = bytes.subarray(from)
  }

  #take(bytes: Buffer, from: number, end: number, nowMs: number): void {
    const type = bytes[from + 3]
    const flags = bytes[from + 4] ?? 0
    if (type === types.settings && flags === 0) this.#socket.write(frame(types.settings, 1, 0))
    const one = this.#open.get(bytes.readUInt32BE(from + 5))
    if (one === undefined) return
    if (type === types.data) one.outcome = codeOf(bytes.subarray(from + 9, end))
    if (type !== types.headers || (flags & 1) === 0) return
    const status = statusOf(bytes.toString('latin1', from + 9, end))
    if (status !== '0') one.outcome = `status ${status}`
    one.endMs = nowMs
    this.#open.delete(bytes.readUInt32BE(from + 5))
  }
}

/** `overall_code` is the first field of a response. */
function codeOf(data: Buffer): string {
  if (data[5] !== 8) return 'no code'
  return ['UNKNOWN', 'OK', 'OVER_LIMIT'][data[6] ?? 0] ?? 'another code'
}

function statusOf(trailers: string): string {
  const at = trailers.indexOf('grpc-status') + 'grpc-status'.length
  return trailers.slice(at + 1, at + 1 + trailers.charCodeAt(at))
}

class Driver {
  readonly #callers: readonly Caller[]
  #mark: string | undefined
  #calls: OpenCall[] = []
  #startMs = 0
  /** Calls sent since the mark was set. */
  #sent = 0

  constructor(callers: readonly Caller[]) {
    this.#callers = callers
    setInterval(() => this.#send(), 1)
  }

  begin(mark: string): void {
    this.#mark = mark
    this.#startMs = performance.now()
    this.#sent = 0
  }

  async untilSent(calls: number): Promise<void> {
    while (this.#sent < calls) await tick()
  }

  async stop(): Promise<readonly DrivenCall[]> {
    this.#mark = undefined
    const giveUpMs = performance.now() + ANSWER_MS_MAX
    const isUnderWay = () => this.#callers.some(({ underWay }) => underWay > 0)
    while (isUnderWay() && performance.now() < giveUpMs) await tick()
    const calls = this.#calls
    this.#calls = []
    return calls
  }

  #send(): void {
    const mark = this.#mark
    if (mark === undefined) return
    const due = ((performance.now() - this.#startMs) * plan.callsPerSecond) / 1_000
    for (; this.#sent < due; this.#sent++) {
      const { key, isSpread } = plan.keys[this.#sent % plan.keys.length] as DriverKey
      const turn = Math.floor(this.#sent / plan.keys.length)
      const caller = this.#callers[turn % this.#callers.length] as Caller
      const value = isSpread ? `${mark}${this.#sent}` : mark
      this.#calls.push(caller.send(key, value, mark))
    }
  }
}

function tick(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}

async function connected(): Promise<Caller> {
  const socket = connect(plan.port, '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
  return new Caller(socket)
}

const driver = new Driver(await Promise.all(Array.from({ length: plan.connections }, connected)))

process.on('message', async (order: DriverOrder) => {
  if (order.name === 'stop') process.send?.(await driver.stop())
  if (order.name === 'mark') driver.begin(order.text)
  if (order.name === 'sent') await driver.untilSent(order.calls)
  if (order.name !== 'stop') process.send?.('done')
})
process.once('disconnect', () => process.exit())
process.send?.('ready')
