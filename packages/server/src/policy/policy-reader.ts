/** The thread that reads a long policy for read-policy-aside.ts. */

import { parentPort, workerData } from 'node:worker_threads'
import { readPolicy } from './read-policy.ts'
import type { ReadOrder } from './read-policy-aside.ts'

const { text, file } = workerData as ReadOrder

parentPort?.postMessage(readPolicy(text, file))
