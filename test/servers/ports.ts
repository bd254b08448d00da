/**
 * Free ports on the loopback address. A port can be taken between the look and the use of it, so
 * who starts a server on one tries again with another.
 */

import { createServer } from 'node:net'

export const LOOPBACK = '127.0.0.1'

/** What Redis Cluster adds to a node's port for the bus between the nodes. */
export const BUS_PORT_OFFSET = 10_000

/**
 * Both a port and its bus port lie below the ports that systems hand out to outgoing connections
 * (from 32768 on Linux, 49152 elsewhere), and the two ranges have no port in common.
 */
const PORT_MIN = 12_000
const PORT_MAX = 21_999

/** More would mean that the machine has no free ports, or no loopback address. */
const TRIES_MAX = 200

/**
 * Tests that run side by side look in slices of their own: what is free for two of them would be
 * taken by one while the other still starts its server, and then talks to that of the first.
 */
const SLICES = 8
const slice = Number(process.env.VITEST_POOL_ID ?? 0) % SLICES
const SLICE_PORTS = Math.floor((PORT_MAX - PORT_MIN + 1) / SLICES)

/** In turn, so that none is given again soon. */
let next = Math.floor(Math.random() * SLICE_PORTS)

/** A port that was free a moment ago, and so was its bus port. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const port = PORT_MIN + slice * SLICE_PORTS + (next++ % SLICE_PORTS)
    if ((await isFree(port)) && (await isFree(port + BUS_PORT_OFFSET))) return port
  }
  throw new Error(`no free port on ${LOOPBACK} from ${PORT_MIN} to ${PORT_MAX}`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host: LOOPBACK, exclusive: true }, () => {
      server.close(() => resolve(true))
    })
  })
}
