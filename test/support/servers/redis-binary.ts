/** Finds the programs of Redis and Valkey on this machine. */

import { findProgram } from './find-program.ts'

export const redisFlavors = ['redis', 'valkey'] as const

export type RedisFlavor = (typeof redisFlavors)[number]

/** A server that is not on the PATH, such as one just compiled. */
const SERVER_VARIABLE = 'TIDEGATE_REDIS_SERVER'

/** The path of the server, which is a Sentinel with `--sentinel`. */
export function redisBinary(flavor: RedisFlavor = 'redis'): string {
  const chosen = flavor === 'redis' ? process.env[SERVER_VARIABLE] : undefined
  const name = chosen ?? `${flavor}-server`
  const binary = findProgram([name])
  if (binary !== undefined) return binary
  throw new Error(
    `${name} was not found. Install it with \`apt-get install ${flavor}-server\`, ` +
      `or set ${SERVER_VARIABLE} to the path of a redis-server.`,
  )
}
