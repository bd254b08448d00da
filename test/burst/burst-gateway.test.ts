/** Bursts of 1,000 connections; burst-gateway.soak.test.ts has the full size. */

import { expect, test } from 'vitest'
import { exactReport } from './burst-connections.ts'
import { burstOnGateway } from './burst-gateway.ts'

test.for([
  { connections: 1_000, requestsEach: 2, keys: 250, limit: 5 },
  { connections: 1_000, requestsEach: 1, keys: 1, limit: 100 },
])('$connections connections on $keys keys of $limit each are exact', async (burst) => {
  expect(await burstOnGateway(burst)).toEqual(exactReport(burst))
})
