/** The cost of traces: off, on without a sampled request, and with 1 % of them sampled. */

import { startRedis } from '../test/support/servers/redis.ts'
import { forkReady } from './harness/child.ts'
import type { Part } from './harness/part.ts'
import { gatewayContenders } from './parts/overhead/gateways.ts'
import { limiterContender } from './parts/overhead/limiters.ts'
import { measureOverhead, NOISE } from './parts/overhead/overhead.ts'

const OFF = 'without traces'
const UNSAMPLED = 'none sampled'
const SAMPLED = '1 % sampled'

const SHARE = 0.01

/** A tenth of a second of the processor. */
const CALLS = 20_000

/** Each takes seconds of the processor, most of them for the client. */
const GATEWAY_ROUNDS = 20

export const part: Part = {
  name: 'tracing',
  title: 'What traces cost',
  compares:
    'Processor time of a limiter on Redis with 256 calls in flight, and of the gateway with a ' +
    'limit on Redis: without traces, with traces of which none is sampled, and with 1 % sampled ' +
    'and exported to a collector. Every contender has two processes, and short rounds take turns.',
  async run(run) {
    const server = await startRedis()
    run.onStop(() => server.stop())
    const { said: port } = await forkReady<number>(run, sink, [])
    const sinkUrl = `http://127.0.0.1:${port}`
    const rounds = run.isQuick ? 3 : 40
    const off = { redisUrl: server.url, sampled: 0 }
    const on = { ...off, meter: 'traces', sinkUrl } as const
    const limiters = [
      await limiterContender(run, OFF, off, CALLS),
      await limiterContender(run, NOISE, off, CALLS),
      await limiterContender(run, UNSAMPLED, on, CALLS),
      await limiterContender(run, SAMPLED, { ...on, sampled: SHARE }, CALLS),
    ]
    const title = 'Traces of a limiter on Redis'
    await measureOverhead(run, { name: 'tracing-library', title, contenders: limiters, rounds })
    if (run.isQuick) return run.skipped('the gateway: only in a full run, as it starts slowly')
    const sampler = [
      'OTEL_TRACES_SAMPLER=parentbased_traceidratio',
      `OTEL_TRACES_SAMPLER_ARG=${SHARE}`,
    ]
    const endpoint = `OTEL_EXPORTER_OTLP_ENDPOINT=${sinkUrl}`
    const contenders = await gatewayContenders(run, server, [
      { name: OFF },
      { name: NOISE },
      { name: UNSAMPLED, variables: [endpoint, 'OTEL_TRACES_SAMPLER=always_off'] },
      { name: SAMPLED, variables: [endpoint, ...sampler] },
    ])
    if (contenders === undefined) return
    const gateways = { name: 'tracing-gateway', title: 'Traces of the gateway' }
    await measureOverhead(run, { ...gateways, contenders, rounds: GATEWAY_ROUNDS })
  },
}

const sink = new URL('parts/overhead/span-sink.ts', import.meta.url)
