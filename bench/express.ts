/**
 * Requests per second of an Express application with our middleware and with express-rate-limit's,
 * both in memory, both sending the X-RateLimit and the IETF headers. Each server is a process of
 * its own; the load comes from this one.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import autocannon from 'autocannon'
import { type Contender, compare } from './parts/compare.ts'

const ROUND_SECONDS = 2
const CONNECTIONS = 32

const [ours, peer] = await Promise.all([start('tidegate'), start('express-rate-limit')])
await compare({
  title: 'Express, GET /, all admitted',
  ours: ours.contender,
  peer: peer.contender,
  ratioMin: 1,
})
ours.server.kill()
peer.server.kill()

async function start(name: string): Promise<{ server: ChildProcess; contender: Contender }> {
  const server = fork(new URL('./parts/express-server.ts', import.meta.url), [name])
  const [port] = (await once(server, 'message')) as [number]
  const run = async () => {
    const url = `http://127.0.0.1:${port}/`
    const result = await autocannon({ url, duration: ROUND_SECONDS, connections: CONNECTIONS })
    if (result.non2xx > 0 || result.errors > 0) throw new Error(`${name}: not all requests passed`)
    return result.requests.average
  }
  return { server, contender: { name, run } }
}
