/**
 * Loaded into a gateway process before its own code: reports on a port of its own the memory after
 * a garbage collection, changes to Object.prototype, and stalls of the event loop since the last
 * probe.
 */

import { createServer } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'
import { machineNowMs } from '../support/faults/machine-clock.ts'
import type { ProbeAnswer } from './probed-gateway.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const TICK_MS = 5

/** Shorter turns of the event loop delay no request noticeably. */
const HELD_MS_MIN = 20

let held: { fromMs: number; toMs: number }[] = []
let lastMs = machineNowMs()

setInterval(() => {
  const nowMs = machineNowMs()
  const dueMs = lastMs + TICK_MS
  lastMs = nowMs
  if (nowMs - dueMs >= HELD_MS_MIN) held.push({ fromMs: dueMs, toMs: nowMs })
}, TICK_MS).unref()

const server = createServer((_request, response) => {
  const heldUp = held
  collect()
  // The collection itself stalls the event loop, and must not count.
  held = []
  lastMs = machineNowMs()
  const { rss, heapUsed, external } = process.memoryUsage()
  const inherited: string[] = []
  for (const name in {}) inherited.push(name)
  const names = Object.getOwnPropertyNames(Object.prototype).sort()
  const memory = { rss, held: heapUsed + external }
  const answer: ProbeAnswer = { ...memory, inherited, prototype: names, heldUp }
  response.setHeader('connection', 'close')
  response.end(JSON.stringify(answer))
})

// Workers of the process load this file as well.
if (isMainThread) server.listen(Number(process.env.TIDEGATE_PROBE_PORT), '127.0.0.1').unref()
