/** The contenders of the part about traces. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Contender } from '../../harness/rounds.ts'

export interface TracedFigure {
  readonly perSecond: number
  /** Processor time of the process for one decision or request. */
  readonly cpuUs: number
}

export type TracedSubject = Contender<TracedFigure>

export const OFF = 'without traces'
export const UNSAMPLED = 'none sampled'
export const SAMPLED = '1 % sampled'

/** The share of sampled requests of `SAMPLED`. */
export const SHARE = 0.01

/** Takes spans and forgets them. */
export async function startSink(): Promise<{ readonly url: string; stop(): void }> {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.end('{}'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, stop: () => void server.close() }
}
