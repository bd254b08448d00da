/** A prober that goes on: a round from time to time, and a page of metrics. */

import { setTimeout as sleep } from 'node:timers/promises'
import { listen, type RunningListener } from '../http-api/listener.ts'
import { router } from '../http-api/router.ts'
import { contentTypes, formatFor, pageLines } from '../observability/metrics/exposition.ts'
import { PROBE_CALLS, type ProbeRound, type Prober } from './prober.ts'

export interface ProbeServiceOptions {
  readonly prober: Prober
  /** A port of 127.0.0.1; 0 takes a free one. */
  readonly port: number
  readonly everySeconds: number
  /** Called for each round with a wrong decision. */
  onWrong(round: ProbeRound): void
}

export async function startProbeService(options: ProbeServiceOptions): Promise<RunningListener> {
  const { prober, port, everySeconds, onWrong } = options
  const listener = await listen(router({ routes: pages(prober) }), { host: '127.0.0.1', port })
  const stopped = new AbortController()
  const { signal } = stopped
  const asking = async () => {
    while (!signal.aborted) {
      const rounds = await prober.round()
      for (const round of rounds) if (round.counts.right !== PROBE_CALLS) onWrong(round)
      await sleep(everySeconds * 1_000, undefined, { signal }).catch(() => undefined)
    }
  }
  const ended = asking()
  return {
    address: listener.address,
    async close() {
      stopped.abort()
      await ended
      await listener.close()
    },
  }
}

function pages(prober: Prober): Parameters<typeof router>[0]['routes'] {
  return {
    '/metrics': {
      GET({ headers }) {
        const format = formatFor(headers.accept)
        return { status: 200, type: contentTypes[format], body: pageLines(prober.read(), format) }
      },
    },
  }
}
