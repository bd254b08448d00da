/** Whether a limit holds when several processes ask at the same moment. */

import { startRedis } from '../test/support/servers/redis.ts'
import { packageVersion } from './harness/machine.ts'
import type { Part, Run } from './harness/part.ts'
import { median } from './harness/rounds.ts'
import {
  type BurstProcesses,
  contenderNames,
  LIMIT,
  PROCESSES,
  REQUESTS,
  startBurstProcesses,
} from './parts/admission/processes.ts'
import { type BurstService, startBurstServices } from './parts/admission/services.ts'

export const part: Part = {
  name: 'admission',
  title: 'A thousand requests at once, and a limit of 100',
  compares:
    'Bursts of 1,000 concurrent requests for one key from four processes, with a limit of 100 a ' +
    'day on one Redis, and the same with counters in the memory of each process.',
  async run(run) {
    for (const name of peers) run.uses(name, packageVersion(name) ?? 'unknown')
    const server = await startRedis()
    run.onStop(() => server.stop())
    const processes = await startBurstProcesses(server.url)
    run.onStop(() => processes.stop())
    if (run.isQuick) run.skipped('rate limit services: only in a full run, as they start slowly')
    const services = run.isQuick ? [] : await startBurstServices(run, server)
    await measure(run, processes, services)
    remark(run)
  },
}

const peers = [
  'rate-limiter-flexible',
  'express-rate-limit',
  'rate-limit-redis',
  '@fastify/rate-limit',
]

async function measure(
  run: Run,
  processes: BurstProcesses,
  services: readonly BurstService[],
): Promise<void> {
  const bursts = run.isQuick ? 1 : 10
  const contenders = contenderNames.map((name): BurstService => {
    return { name, burst: (key) => processes.burst(name, key) }
  })
  // First the contenders that share a Redis, then those that count in their own memory.
  contenders.splice(
    contenders.findIndex(({ name }) => name === 'GET, then INCR'),
    0,
    ...services,
  )
  const admitted = new Map(contenders.map(({ name }): [string, number[]] => [name, []]))
  // The first burst of each contender opens its connections and is not counted.
  for (let round = run.isQuick ? 1 : 0; round <= bursts; round++) {
    for (const { name, burst } of contenders) {
      run.progress(`${name}, burst ${round} of ${bursts}`)
      const count = await burst(`burst ${round} of ${name}`)
      if (round > 0) admitted.get(name)?.push(count)
    }
  }
  const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0)
  run.table({
    name: 'admission-burst',
    title: `Admitted of ${REQUESTS} requests at once from ${PROCESSES} processes, limit ${LIMIT}`,
    columns: [
      { name: 'bursts' },
      { name: 'admitted, least' },
      { name: 'median' },
      { name: 'most' },
      { name: 'beyond the limit, mean', digits: 1 },
      { name: 'below the limit, mean', digits: 1 },
    ],
    rows: [...admitted].map(([name, counts]) => ({
      name,
      isOurs: name.startsWith('Tidegate'),
      cells: [
        counts.length,
        Math.min(...counts),
        median(counts),
        Math.max(...counts),
        sumOf(counts.map((count) => Math.max(0, count - LIMIT))) / counts.length,
        sumOf(counts.map((count) => Math.max(0, LIMIT - count))) / counts.length,
      ],
    })),
  })
}

function remark(run: Run): void {
  run.note(
    'Every product here that counts in Redis does it in one atomic step, and none admits more ' +
      'than the limit. “GET, then INCR” is not a product. It is a limiter that reads first and ' +
      'writes then, which shows that the bursts do overlap.',
  )
  run.note(
    'In memory each of the four processes admits 100: 400 together, with every library. ' +
      'This is not an error of the libraries: a limit in memory holds per process.',
  )
  run.note(
    'Express and Fastify are called over HTTP, the rate limit services over gRPC, the libraries ' +
      'by their functions.',
  )
}
