/**
 * Whether the service is well, for `/healthcheck` and `grpc.health.v1`: its store is connected, it
 * is not about to stop, and where that is asked for, it has a configuration.
 */

import type { RpcMethod } from './grpc-methods.ts'
import { type RpcCall, rpcStatus } from './rpc.ts'
import { ProtoReader } from './wire/proto-reader.ts'

const SERVICES = ['', 'ratelimit', 'envoy.service.ratelimit.v3.RateLimitService']

/** `HealthCheckResponse` with its one field. */
const serving = Buffer.from([8, 1])
const notServing = Buffer.from([8, 2])
const serviceUnknown = Buffer.from([8, 3])

const NOT_FOUND = 5

/** How often a change is looked for, for those who watch. */
const LOOK_MS = 250

const WATCHERS_MAX = 1_000

export class Health {
  readonly #isWell: () => boolean
  /** Who watches which service, and what they were told last. */
  readonly #watchers = new Map<RpcCall, { readonly service: string; told: Buffer }>()
  readonly #timer: NodeJS.Timeout
  #isStopping = false

  constructor(isWell: () => boolean) {
    this.#isWell = isWell
    this.#timer = setInterval(() => this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  get isWell(): boolean {
    return !this.#isStopping && this.#isWell()
  }

  get methods(): ReadonlyMap<string, RpcMethod> {
    return new Map([
      ['/grpc.health.v1.Health/Check', this.#check],
      ['/grpc.health.v1.Health/Watch', this.#watch],
    ])
  }

  /** From now on it is unwell, and whoever watches is told. */
  stop(): void {
    this.#isStopping = true
    this.#look()
    clearInterval(this.#timer)
    for (const call of this.#watchers.keys()) call.finish(rpcStatus.unavailable, 'stopping')
    this.#watchers.clear()
  }

  readonly #check: RpcMethod = (call, start, end) => {
    const service = serviceOf(call, start, end)
    if (!SERVICES.includes(service)) {
      call.finish(NOT_FOUND, 'unknown service')
      return
    }
    const message = this.isWell ? serving : notServing
    call.reply(message, message.length)
  }

  readonly #watch: RpcMethod = (call, start, end) => {
    if (this.#watchers.size >= WATCHERS_MAX || this.#isStopping) {
      call.finish(rpcStatus.unavailable, 'too many watch, or stopping')
      return
    }
    const service = serviceOf(call, start, end)
    const told = this.#messageFor(service)
    this.#watchers.set(call, { service, told })
    call.onGone = () => {
      this.#watchers.delete(call)
      // The transport counts a call until it is answered.
      call.finish(rpcStatus.unavailable, '')
    }
    call.send(told)
  }

  #look(): void {
    for (const [call, watcher] of this.#watchers) {
      const message = this.#messageFor(watcher.service)
      if (message === watcher.told) continue
      watcher.told = message
      call.send(message)
    }
  }

  #messageFor(service: string): Buffer {
    if (!SERVICES.includes(service)) return serviceUnknown
    return this.isWell ? serving : notServing
  }
}

/** What cannot be read is no service that is known. */
function serviceOf(call: RpcCall, start: number, end: number): string {
  try {
    const reader = new ProtoReader(call.bytes, start, end)
    let service = ''
    while (reader.hasMore) {
      const tag = reader.varint()
      if (tag === 10) service = reader.text()
      else reader.skip(tag % 8)
    }
    return service
  } catch {
    return '\0'
  }
}
