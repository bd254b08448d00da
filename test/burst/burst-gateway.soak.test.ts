/** Bursts of thousands of connections. A process has up to 6,000 open files: see `ulimit -n`. */

import { expect, test } from 'vitest'
import { exactReport } from './burst-connections.ts'
import { burstOnGateway } from './burst-gateway.ts'

test.for([
  { connections: 4_000, requestsEach: 2, keys: 1_000, limit: 5 },
  { connections: 5_000, requestsEach: 1, keys: 1, limit: 100 },
])('$connections connections on $keys keys of $limit each are exact', async (burst) => {
  expect(await burstOnGateway(burst)).toEqual(exactReport(burst))
})
