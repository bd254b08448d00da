/** Thousands of HTTP connections that are opened at once, by one process for each of two cores. */

import { once } from 'node:events'
import { join } from 'node:path'
import { forkAt, nextMessage } from '../support/faults/fork-at.ts'
import { here } from '../support/servers/place.ts'
import type { ConnectionsPlan, ConnectionsResult } from './burst-connections-worker.ts'

export interface ConnectionsBurst {
  readonly connections: number
  /** Sent one after the other on each connection. Default: 1. */
  readonly requestsEach?: number
  /** API keys, which the requests use in turn. */
  readonly keys: number
  /** Units of each key. */
  readonly limit: number
}

export interface ConnectionsReport {
  /** Responses by status, and requests without one by the error. */
  readonly outcomes: Readonly<Record<string, number>>
  readonly over: number
  readonly under: number
  readonly degraded: number
}

const PROCESSES = 2

/** Resolves when every request has its response or its connection has failed. */
export async function burstOfConnections(
  port: number,
  { connections, requestsEach = 1, keys, limit }: ConnectionsBurst,
): Promise<ConnectionsReport> {
  const children = Array.from({ length: PROCESSES }, (_, first) => {
    const part = { first, step: PROCESSES, count: connections }
    const plan: ConnectionsPlan = { port, ...part, requestsEach, keys }
    return forkAt(here, join(import.meta.dirname, 'burst-connections-worker.ts'), plan)
  })
  try {
    await Promise.all(children.map(nextMessage))
    const answers = children.map(nextMessage)
    for (const child of children) child.send('start')
    return reportOf((await Promise.all(answers)) as ConnectionsResult[], keys, limit)
  } finally {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      const ended = once(child, 'exit')
      if (child.connected) child.disconnect()
      await ended
    }
  }
}

/** The counts of a burst in which every request was decided and answered. */
export function exactReport({
  connections,
  requestsEach = 1,
  keys,
  limit,
}: ConnectionsBurst): ConnectionsReport {
  const denied = connections * requestsEach - keys * limit
  return { outcomes: { 200: keys * limit, 429: denied }, over: 0, under: 0, degraded: 0 }
}

function reportOf(
  results: readonly ConnectionsResult[],
  keys: number,
  limit: number,
): ConnectionsReport {
  const outcomes: Record<string, number> = {}
  for (const result of results) {
    for (const [name, count] of Object.entries(result.outcomes)) {
      outcomes[name] = (outcomes[name] ?? 0) + count
    }
  }
  const admitted = Array.from({ length: keys }, (_, key) =>
    sum(results, (one) => one.admitted[key]),
  )
  return {
    outcomes,
    over: sum(admitted, (count) => Math.max(0, count - limit)),
    under: sum(admitted, (count) => Math.max(0, limit - count)),
    degraded: sum(results, (one) => one.degraded),
  }
}

function sum<T>(all: readonly T[], of: (one: T) => number | undefined): number {
  return all.reduce((total, one) => total + (of(one) ?? 0), 0)
}
