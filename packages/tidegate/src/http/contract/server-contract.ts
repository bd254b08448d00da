/** What the middleware contract is tested with: a real server, a client for it, and a clock. */

import type { ServerResponse } from 'node:http'
import { afterEach } from 'vitest'
import type { Limit } from '../../algorithms/limit.ts'
import type { Clock } from '../../clock.ts'
import type { GuardDecision } from '../guard.ts'
import type { GuardOptions } from '../guard-options.ts'

/** What the requests of all frameworks have in common: a way to the header fields. */
export type ContractRequest =
  | { readonly headers: Readonly<Record<string, string | string[] | undefined>> }
  | { readonly req: { header(name: string): string | undefined } }

export interface ContractOptions extends GuardOptions<ContractRequest> {
  /** The server's `handler` is to send what this returns as its body, and nothing else. */
  readonly respond?: (decision: GuardDecision) => string | Promise<string>
}

/** Each answers its path with the status that it returns; every other path is answered with 200. */
export type ContractRoutes = Readonly<
  Record<string, (response: ServerResponse) => number | Promise<number>>
>

export interface ContractServer {
  /** Such as `http://127.0.0.1:40123`. */
  readonly url: string
  close(): Promise<unknown>
}

/**
 * Starts a server on a free port of 127.0.0.1, with the middleware once for each of the options, in
 * that order. What the middleware or a route throws is to be answered by the framework's own error
 * handling, with 500 and the error's message as the body.
 */
export type StartServer = (
  options: readonly ContractOptions[],
  routes: ContractRoutes,
) => Promise<ContractServer>

export interface ContractClient {
  readonly url: string
  get(path?: string, headers?: Readonly<Record<string, string>>): Promise<Response>
  /** The statuses of several requests, one after the other. */
  statuses(times: number, headers?: Readonly<Record<string, string>>): Promise<number[]>
}

export type OpenServer = (
  options: ContractOptions | readonly ContractOptions[],
  routes?: ContractRoutes,
) => Promise<ContractClient>

/** Opens servers that are closed after each test. */
export function serverOpener(start: StartServer): OpenServer {
  const servers: ContractServer[] = []
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()))
  })
  return async (options, routes = {}) => {
    const server = await start([options].flat(), routes)
    servers.push(server)
    return clientOf(server.url)
  }
}

export function headerOf(request: ContractRequest, name: string): string | undefined {
  return 'headers' in request ? request.headers[name]?.toString() : request.req.header(name)
}

export function perMinute(limit: number): Limit {
  return { algorithm: 'fixedWindow', limit, per: 60_000 }
}

/** The beginning of a minute, so that windows of a minute have a whole one left. */
export const START_MS = 1_700_000_040_000

export interface ContractClock extends Clock {
  advance(durationMs: number): void
}

export function contractClock(): ContractClock {
  let now = START_MS
  return {
    now: () => now,
    schedule: () => () => undefined,
    advance(durationMs) {
      now += durationMs
    },
  }
}

function clientOf(url: string): ContractClient {
  const get: ContractClient['get'] = (path = '/', headers = {}) => fetch(url + path, { headers })
  return {
    url,
    get,
    async statuses(times, headers) {
      const statuses: number[] = []
      while (statuses.length < times) {
        const response = await get('/', headers)
        await response.arrayBuffer()
        statuses.push(response.status)
      }
      return statuses
    },
  }
}
