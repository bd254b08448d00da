/**
 * The health of the service, for `/healthcheck` and `grpc.health.v1`: it is healthy if its stores
 * are ready, it is not about to stop, and it has a configuration, if that is required.
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

/** The interval of the checks that notify watchers: short against the probes of load balancers. */
const CHECK_MS = 250

/** Each Envoy has one or two watchers. */
const WATCHERS_MAX = 1_000

export class Health {
  readonly #isHealthy: () => boolean
  /** The service that each call watches, and the message that was sent last. */
  readonly #watchers = new Map<RpcCall, { readonly service: string; sent: Buffer }>()
  readonly #timer: NodeJS.Timeout
  #isStopping = false

  constructor(isHealthy: () => boolean) {
    this.#isHealthy = isHealthy
    this.#timer = setInterval(() => this.#notify(), CHECK_MS)
    this.#timer.unref()
  }

  get isHealthy(): boolean {
    return !this.#isStopping && this.#isHealthy()
  }

  get methods(): ReadonlyMap<string, RpcMethod> {
    return new Map([
      ['/grpc.health.v1.Health/Check', this.#check],
      ['/grpc.health.v1.Health/Watch', this.#watch],
    ])
  }

  /** Reports NOT_SERVING to all watchers from now on. */
  stop(): void {
    this.#isStopping = true
    this.#notify()
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
    const message = this.isHealthy ? serving : notServing
    call.reply(message, message.length)
  }

  readonly #watch: RpcMethod = (call, start, end) => {
    if (this.#watchers.size >= WATCHERS_MAX || this.#isStopping) {
      call.finish(rpcStatus.unavailable, 'too many watchers, or stopping')
      return
    }
    const service = serviceOf(call, start, end)
    const sent = this.#messageFor(service)
    this.#watchers.set(call, { service, sent })
    call.onCancel = () => {
      this.#watchers.delete(call)
      // The transport counts a call until it is finished.
      call.finish(rpcStatus.unavailable, '')
    }
    call.send(sent)
  }

  #notify(): void {
    for (const [call, watcher] of this.#watchers) {
      const message = this.#messageFor(watcher.service)
      if (message === watcher.sent) continue
      watcher.sent = message
      call.send(message)
    }
  }

  #messageFor(service: string): Buffer {
    if (!SERVICES.includes(service)) return serviceUnknown
    return this.isHealthy ? serving : notServing
  }
}

/** Returns the name of no service if the message cannot be read. */
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
