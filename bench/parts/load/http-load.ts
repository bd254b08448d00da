/** Load on a server over a thousand API keys, by wrk, or by autocannon if wrk is not installed. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import autocannon from 'autocannon'
import { packageVersion, programVersion } from '../../harness/machine.ts'
import type { Run } from '../../harness/part.ts'
import { KEYS, writeScript, wrk } from './wrk.ts'

export interface HttpFigure {
  readonly perSecond: number
  readonly p99Ms: number
  readonly requests: number
}

export interface HttpLoad {
  /** Sends requests for `seconds`; all of them must be admitted. */
  load(port: number, seconds: number): Promise<HttpFigure>
  /** A thousand requests, not measured. */
  warmUp(port: number): Promise<void>
}

const CONNECTIONS = 32
const WARM_UP_REQUESTS = 1_000

export function httpLoad(run: Run): HttpLoad {
  const version = programVersion('wrk', ['-v'])
  const warmUp = async (port: number) => {
    await cannonade(port, { amount: WARM_UP_REQUESTS })
  }
  if (version === undefined) {
    run.uses('autocannon', packageVersion('autocannon') ?? 'unknown')
    run.skipped('wrk: not installed (apt-get install wrk), the load comes from autocannon')
    return { load: (port, seconds) => cannonade(port, { duration: seconds }), warmUp }
  }
  run.uses('wrk', version)
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-load-'))
  run.onStop(() => rmSync(folder, { recursive: true, force: true }))
  const scriptFile = writeScript(folder)
  return {
    async load(port, seconds) {
      const result = await wrk({ port, seconds, connections: CONNECTIONS, scriptFile })
      if (result.refused > 0) throw new Error(`${result.refused} requests were not admitted`)
      return result
    },
    warmUp,
  }
}

/** Sends requests by autocannon; all of them must be admitted. */
export async function cannonade(
  port: number,
  length: { readonly duration: number } | { readonly amount: number },
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpFigure> {
  const result = await autocannon({
    url: `http://127.0.0.1:${port}`,
    connections: CONNECTIONS,
    requests: Array.from({ length: KEYS }, (_, at) => ({
      path: '/api/resource',
      headers: { 'x-api-key': `key-${at + 1}`, ...headers },
    })),
    ...length,
  })
  if (result.non2xx > 0 || result.errors > 0) throw new Error('not all requests were admitted')
  const { average, total } = result.requests
  return { perSecond: average, p99Ms: result.latency.p99, requests: total }
}
