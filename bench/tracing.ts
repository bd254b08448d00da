/** The cost of traces: off, on without a sampled request, and with 1 % of them sampled. */

import { startRedis } from '../test/support/servers/redis.ts'
import type { Part, Run, Table } from './harness/part.ts'
import { median, takeTurns } from './harness/rounds.ts'
import { gatewayContenders } from './parts/tracing/gateway.ts'
import { libraryContenders } from './parts/tracing/library.ts'
import { OFF, type TracedFigure, type TracedSubject } from './parts/tracing/subject.ts'

export const part: Part = {
  name: 'tracing',
  title: 'What traces cost',
  compares:
    'Throughput and processor time of a limiter on Redis with 256 calls in flight, and of the ' +
    'gateway with a limit on Redis: without traces, with traces of which none is sampled, and ' +
    'with 1 % sampled and exported to a collector on the same machine.',
  async run(run) {
    const server = await startRedis()
    run.onStop(() => server.stop())
    await measure(run, 'library', await libraryContenders(run, server), run.isQuick ? 2 : 10)
    if (run.isQuick) return run.skipped('the gateway: only in a full run, as it starts slowly')
    const gateways = await gatewayContenders(run, server)
    if (gateways !== undefined) await measure(run, 'gateway', gateways, 5)
  },
}

async function measure(
  run: Run,
  what: string,
  contenders: readonly TracedSubject[],
  rounds: number,
): Promise<void> {
  const figures = await takeTurns(run, what, contenders, rounds)
  const off = figures.get(OFF) ?? []
  const rows = contenders.map(({ name }) => rowOf(name, figures.get(name) ?? [], off))
  run.table({
    name: `tracing-${what}`,
    title: `Traces of the ${what}`,
    columns: [
      { name: 'per second', digits: 0 },
      { name: 'throughput lost, %', digits: 1 },
      { name: 'µs of the process', digits: 2 },
      { name: 'processor time added, %', digits: 1 },
    ],
    rows,
  })
}

/** Compares with the round of the contender without traces next to it, then takes the median. */
function rowOf(
  name: string,
  own: readonly TracedFigure[],
  off: readonly TracedFigure[],
): Table['rows'][number] {
  const of = (field: keyof TracedFigure) => median(own.map((round) => round[field]))
  const change = (field: keyof TracedFigure) =>
    median(own.map((round, at) => 100 * (round[field] / (off[at]?.[field] ?? Number.NaN) - 1)))
  const cells = [of('perSecond'), -change('perSecond'), of('cpuUs'), change('cpuUs')]
  return { name, isOurs: true, cells }
}
