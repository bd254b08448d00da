/** The thread that reads a text for policy-readers.ts. */

import { parentPort, workerData } from 'node:worker_threads'
import type { ReadOrder } from './policy-readers.ts'
import { readPolicy } from './read-policy.ts'
import { readTierTable } from './tier-table.ts'

const { text, file, tierNames } = workerData as ReadOrder

parentPort?.postMessage(
  tierNames === undefined ? readPolicy(text, file) : readTierTable(text, file, tierNames),
)
