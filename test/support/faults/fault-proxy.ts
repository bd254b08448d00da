/**
 * A TCP proxy that simulates networks: latency, bandwidth, silence, resets. It does not depend on a
 * protocol, and faults can be set at any time, for new and open connections.
 *
 * Because the kernel accepts connections by itself, it cannot leave a connection attempt
 * unanswered, or answer "connection refused". Network namespaces can do the first.
 */

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { here, type Place } from '../servers/place.ts'
import { LOOPBACK } from '../servers/ports.ts'
import { FaultConnection, FaultSettings, type Faults } from './fault-connection.ts'
import { forkAt, nextMessage } from './fork-at.ts'
import { machineNowMs } from './machine-clock.ts'

export type { Faults } from './fault-connection.ts'
export type { FlowFaults } from './fault-flow.ts'

export interface ProxyTarget {
  readonly port: number
  readonly host?: string
}

export interface FaultProxy {
  readonly host: string
  readonly port: number
  /** The URL of a Redis behind the proxy. */
  readonly url: string
  /** Replaces all faults. */
  set(faults: Faults): Promise<void>
  /** Removes all faults; held bytes are delivered. */
  clear(): Promise<void>
  /** Resets all open connections. */
  cut(): Promise<void>
  /**
   * Drops all bytes on open connections without notice; new connections work. This is what a
   * firewall does that lost its state.
   */
  freeze(): Promise<void>
  traffic(): Promise<ProxyTraffic>
  stop(): Promise<void>
}

export interface ProxyTraffic {
  /** Connections in all, refused ones included. */
  readonly accepted: number
  readonly refused: number
  readonly open: number
  /** The most connections that came within one second. */
  readonly acceptedPerSecondMax: number
  /**
   * Times of the connections, on the axis of `machineNowMs`; at most the last `ACCEPT_TIMES_MAX`.
   */
  readonly acceptedAtMs: readonly number[]
  /** Bytes received from clients, forwarded or not. */
  readonly requestBytes: number
  /** Bytes received from the server, forwarded or not. */
  readonly replyBytes: number
  /** The longest turn of the event loop of the proxy. */
  readonly longestTurnMs: number
}

/** Sent to the process of fault-proxy-worker.ts, which answers every call with a `ProxyReply`. */
export type ProxyCall =
  | { readonly name: 'set'; readonly faults: Faults }
  | { readonly name: 'cut' | 'freeze' | 'traffic' }

export interface ProxyReply {
  readonly traffic: ProxyTraffic
}

/** Enough for a reconnect storm of minutes, and half a megabyte. */
const ACCEPT_TIMES_MAX = 65_536

/** Starts the proxy in this process. */
export async function startFaultProxy(
  target: ProxyTarget,
  listenHost = LOOPBACK,
): Promise<FaultProxy> {
  const core = new ProxyCore(target)
  const port = await core.listen(listenHost)
  return {
    ...addressOf(listenHost, port),
    set: async (faults) => core.set(faults),
    clear: async () => core.set({}),
    cut: async () => core.cut(),
    freeze: async () => core.freeze(),
    traffic: async () => core.traffic(),
    stop: () => core.stop(),
  }
}

/** Starts the proxy in a process of its own, which a busy event loop here does not delay. */
export async function startFaultProxyProcess(
  target: ProxyTarget,
  place: Place = here,
): Promise<FaultProxy> {
  const program = join(import.meta.dirname, 'fault-proxy-worker.ts')
  const child = forkAt(place, program, { target, host: place.host })
  const port = Number(await nextMessage(child))
  let calls = Promise.resolve<unknown>(undefined)
  // Calls are serialised, so that the next message is the reply.
  const call = (request: ProxyCall): Promise<ProxyReply> => {
    const answer = calls.then(() => {
      child.send(request)
      return nextMessage(child) as Promise<ProxyReply>
    })
    calls = answer.catch(() => undefined)
    return answer
  }
  return {
    ...addressOf(place.host, port),
    set: async (faults) => void (await call({ name: 'set', faults })),
    clear: async () => void (await call({ name: 'set', faults: {} })),
    cut: async () => void (await call({ name: 'cut' })),
    freeze: async () => void (await call({ name: 'freeze' })),
    traffic: async () => (await call({ name: 'traffic' })).traffic,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}

class ProxyCore {
  readonly #target: ProxyTarget
  readonly #settings = new FaultSettings()
  readonly #connections = new Set<FaultConnection>()
  readonly #counts = { accepted: 0, refused: 0, requestBytes: 0, replyBytes: 0 }
  readonly #listener: Server
  readonly #loop = monitorEventLoopDelay({ resolution: 10 })
  #acceptedAtMs: number[] = []

  constructor(target: ProxyTarget) {
    this.#target = target
    this.#loop.enable()
    const options = { allowHalfOpen: true, noDelay: true }
    this.#listener = createServer(options, (client) => this.#accept(client))
  }

  async listen(host: string): Promise<number> {
    this.#listener.listen(0, host)
    await once(this.#listener, 'listening')
    return (this.#listener.address() as AddressInfo).port
  }

  set(faults: Faults): void {
    this.#settings.set(faults)
    for (const connection of this.#connections) connection.update()
  }

  cut(): void {
    for (const connection of this.#connections) connection.cut()
  }

  freeze(): void {
    for (const connection of this.#connections) connection.freeze()
  }

  traffic(): ProxyTraffic {
    return {
      ...this.#counts,
      open: this.#connections.size,
      acceptedPerSecondMax: mostWithinSecond(this.#acceptedAtMs),
      acceptedAtMs: [...this.#acceptedAtMs],
      longestTurnMs: this.#loop.max / 1e6,
    }
  }

  async stop(): Promise<void> {
    if (!this.#listener.listening) return
    this.#loop.disable()
    const closed = once(this.#listener, 'close')
    this.#listener.close()
    this.cut()
    await closed
  }

  #accept(client: Socket): void {
    this.#counts.accepted += 1
    this.#acceptedAtMs.push(machineNowMs())
    if (this.#acceptedAtMs.length > ACCEPT_TIMES_MAX) {
      this.#acceptedAtMs = this.#acceptedAtMs.slice(ACCEPT_TIMES_MAX / 2)
    }
    if (this.#settings.faults.refuse === true) {
      this.#counts.refused += 1
      client.on('error', () => {})
      client.resetAndDestroy()
      return
    }
    const { port, host = LOOPBACK } = this.#target
    const server = connect({ port, host, allowHalfOpen: true, noDelay: true })
    const connection = new FaultConnection(client, server, this.#settings, this.#counts)
    this.#connections.add(connection)
    const forget = () => {
      if (client.closed && server.closed) this.#connections.delete(connection)
    }
    client.once('close', forget)
    server.once('close', forget)
  }
}

function addressOf(host: string, port: number) {
  return { host, port, url: `redis://${host}:${port}` }
}

function mostWithinSecond(timesMs: readonly number[]): number {
  let first = 0
  let most = 0
  for (const [last, timeMs] of timesMs.entries()) {
    while (timeMs - (timesMs[first] ?? timeMs) >= 1000) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}
