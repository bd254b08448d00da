/**
 * Free ports on the loopback address. A port can be taken between the check and its use, so callers
 * that start a server try again with another port.
 */

import { createServer } from 'node:net'

export const LOOPBACK = '127.0.0.1'

/** Redis Cluster adds this to a node's port for its bus. */
export const BUS_PORT_OFFSET = 10_000

/**
 * Ports and bus ports are below the ephemeral ports (from 32768 on Linux, 49152 elsewhere), and the
 * two ranges do not overlap.
 */
const PORT_MIN = 12_000
const PORT_MAX = 21_999

/** Needing more means that the machine has no free ports, or no loopback address. */
const TRIES_MAX = 200

/**
 * Parallel test workers use slices of their own. Otherwise two could find the same port free, and
 * one would talk to the server of the other.
 */
const SLICES = 8
const slice = Number(process.env.VITEST_POOL_ID ?? 0) % SLICES
const SLICE_PORTS = Math.floor((PORT_MAX - PORT_MIN + 1) / SLICES)

/** Ports are used in turn, so that none is reused soon. */
let next = Math.floor(Math.random() * SLICE_PORTS)

/** Returns a port that was free a moment ago, with its bus port. */
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
