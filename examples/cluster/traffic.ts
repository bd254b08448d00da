/**
 * Traffic through a gateway on the cluster: a gateway, a backend, and clients with different
 * addresses (127.0.1.x), so that their counters are on all shards.
 */

import { Agent, get, type IncomingMessage } from 'node:http'
import { LOOPBACK } from '../../test/support/servers/ports.ts'
import { freePortNear, startBackend, startGateway } from '../processes.ts'
import { runningPorts } from './nodes.ts'

export interface Traffic {
  /** The responses that the clients got since the last call. */
  take(): Seen
  stop(): Promise<void>
}

export interface Seen {
  readonly admitted: number
  readonly refused: number
  /** Decided without the store, as the limit declares. */
  readonly degraded: number
  readonly failed: number
  readonly slowestMs: number
}

const CLIENTS = 30
const REQUESTS_PER_SECOND = 300

export async function startTraffic(): Promise<Traffic> {
  const [port, backendPort] = [await freePortNear(8080), await freePortNear(8081)]
  const backend = await startBackend(backendPort, 'ignore')
  const environment = {
    BACKEND_URL: `http://${LOOPBACK}:${backendPort}`,
    REDIS_MODE: 'cluster',
    REDIS_ADDRS: runningPorts()
      .map((one) => `${LOOPBACK}:${one}`)
      .join(','),
    BUCKET_SIZE: '1000',
    REFILL_RATE: '1000',
  }
  const gateway = await startGateway(environment, port, 'ignore').catch(async (error: unknown) => {
    await backend.end()
    throw error
  })
  const clients = new Clients(port)
  return {
    take: () => clients.take(),
    async stop() {
      await clients.stop()
      await Promise.all([gateway.end(), backend.end()])
    },
  }
}

class Clients {
  readonly #port: number
  readonly #agent = new Agent({ keepAlive: true })
  readonly #timer: NodeJS.Timeout
  readonly #pending = new Set<Promise<void>>()
  #sent = 0
  #seen = nothing()

  constructor(port: number) {
    this.#port = port
    this.#timer = setInterval(() => this.#send(), 1000 / REQUESTS_PER_SECOND)
  }

  take(): Seen {
    const seen = this.#seen
    this.#seen = nothing()
    return seen
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#pending)
    this.#agent.destroy()
  }

  #send(): void {
    const localAddress = `127.0.1.${1 + (this.#sent++ % CLIENTS)}`
    const startedAt = performance.now()
    const options = {
      host: LOOPBACK,
      port: this.#port,
      path: '/api/resource',
      localAddress,
      agent: this.#agent,
    }
    const one = new Promise<void>((resolve) => {
      const settle = (response?: IncomingMessage) => {
        response?.resume()
        this.#count(response, performance.now() - startedAt)
        resolve()
      }
      get(options, settle).once('error', () => settle())
    })
    this.#pending.add(one)
    one.then(() => this.#pending.delete(one))
  }

  #count(response: IncomingMessage | undefined, tookMs: number): void {
    const seen = this.#seen
    if (response === undefined || (response.statusCode ?? 500) >= 500) seen.failed += 1
    else if (response.statusCode === 429) seen.refused += 1
    else seen.admitted += 1
    if (response?.headers['x-ratelimit-status'] === 'degraded') seen.degraded += 1
    seen.slowestMs = Math.max(seen.slowestMs, tookMs)
  }
}

function nothing() {
  return { admitted: 0, refused: 0, degraded: 0, failed: 0, slowestMs: 0 }
}
