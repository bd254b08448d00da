/**
 * Loaded into a gateway process before its own code: answers on a port of its own how much memory
 * the process takes once garbage is collected, and whether anybody has touched Object.prototype.
 */

import { createServer } from 'node:http'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { ProbeAnswer } from './probed-gateway.ts'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

const server = createServer((_request, response) => {
  collect()
  const { rss, heapUsed, external } = process.memoryUsage()
  const inherited: string[] = []
  for (const name in {}) inherited.push(name)
  const names = Object.getOwnPropertyNames(Object.prototype).sort()
  const answer: ProbeAnswer = { rss, held: heapUsed + external, inherited, prototype: names }
  response.setHeader('connection', 'close')
  response.end(JSON.stringify(answer))
})

server.listen(Number(process.env.TIDEGATE_PROBE_PORT), '127.0.0.1').unref()
