/** The cost of metrics: counted, and not counted. */

import { startRedis } from '../test/support/servers/redis.ts'
import type { Part } from './harness/part.ts'
import { gatewayContenders } from './parts/overhead/gateways.ts'
import { type LimiterSettings, limiterContender } from './parts/overhead/limiters.ts'
import { measureOverhead, NOISE } from './parts/overhead/overhead.ts'

const OFF = 'without metrics'
const ON = 'with metrics'

/** Each round takes a tenth of a second of the processor. */
const CALLS_IN_MEMORY = 300_000
const CALLS_ON_REDIS = 20_000

/** Each takes seconds of the processor, most of them for the client. */
const GATEWAY_ROUNDS = 20

export const part: Part = {
  name: 'metrics',
  title: 'What metrics cost',
  compares:
    'Processor time of a limiter in memory, of one on Redis with 256 calls in flight, and of the ' +
    'gateway with a limit on Redis, with and without metrics. Every contender has two processes, ' +
    'and short rounds take turns.',
  async run(run) {
    const server = await startRedis()
    run.onStop(() => server.stop())
    const rounds = run.isQuick ? 3 : 40
    const limiters = async (name: string, own: LimiterSettings, calls: number) => {
      const contenders = [
        await limiterContender(run, OFF, own, calls),
        await limiterContender(run, NOISE, own, calls),
        await limiterContender(run, ON, { ...own, meter: 'metrics' }, calls),
      ]
      await measureOverhead(run, { ...titled(name), contenders, rounds })
    }
    await limiters('memory', {}, CALLS_IN_MEMORY)
    await limiters('Redis', { redisUrl: server.url }, CALLS_ON_REDIS)
    if (run.isQuick) return run.skipped('the gateway: only in a full run, as it starts slowly')
    // An admin listener is what turns metrics on.
    const sections = { admin: { listen: { host: '127.0.0.1', port: 0 } } }
    const names = [{ name: OFF }, { name: NOISE }, { name: ON, sections }]
    const contenders = await gatewayContenders(run, server, names)
    if (contenders === undefined) return
    await measureOverhead(run, { ...titled('gateway'), contenders, rounds: GATEWAY_ROUNDS })
  },
}

function titled(of: string) {
  const title = of === 'gateway' ? 'Metrics of the gateway' : `Metrics of a limiter, ${of}`
  return { name: `metrics-${of.toLowerCase()}`, title }
}
