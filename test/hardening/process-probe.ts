/**
 * Loaded into a gateway process before its own code: answers on a port of its own how much memory
 * the process takes once garbage is collected, whether anybody has touched Object.prototype, and
 * when the event loop was held up since it was asked last.
 */

import { createServer } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { machineNowMs } from '../faults/machine-clock.ts'
import type { ProbeAnswer } from './probed-gateway.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const TICK_MS = 5

/** Shorter than this, a turn of the loop holds nobody up. */
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
  // Collecting takes a while, and is the probe's own doing.
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

server.listen(Number(process.env.TIDEGATE_PROBE_PORT), '127.0.0.1').unref()
