/** A process that makes bursts: one for each message that it gets, and sends back the result. */

import { degradedCount } from './burst-report.ts'
import { type BurstCaller, type BurstOrder, runBurst } from './burst-run.ts'

/** Enough calls to compile the code, with so few in flight that none waits. */
const warmUp: Omit<BurstOrder, 'name'> = {
  keys: 1_000,
  asksPerKey: 5,
  pace: { inFlight: 16, forMs: 500 },
}

/** Each takes half a second; a machine that is busy for longer cannot run this test. */
const WARM_UPS_MAX = 20

/** A cold process makes its caller with the first burst; a warm one has been answered before. */
export async function serveBursts(make: () => BurstCaller, isWarm: boolean): Promise<void> {
  let made: BurstCaller | undefined
  const prepare = () => {
    made ??= make()
    return made
  }
  process.on('message', async (order: BurstOrder) => {
    process.send?.(await runBurst(prepare, order))
  })
  process.once('disconnect', () => process.exit())
  if (isWarm) await warm(prepare)
  process.send?.('ready')
}

/** Ends with a warm-up that nothing has disturbed. */
async function warm(prepare: () => BurstCaller): Promise<void> {
  for (let round = 1; round <= WARM_UPS_MAX; round++) {
    const result = await runBurst(prepare, { ...warmUp, name: `warm-up-${round}` })
    if (degradedCount(result) === 0) return
  }
  throw new Error('every warm-up was disturbed')
}
