/** Where the programs of Redis and Valkey are on this machine. */

import { accessSync, constants } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

export const redisFlavors = ['redis', 'valkey'] as const

export type RedisFlavor = (typeof redisFlavors)[number]

/** A server that is not on the PATH, such as one just compiled. */
const SERVER_VARIABLE = 'TIDEGATE_REDIS_SERVER'

/** The path of the server's program; the same program is Sentinel when called with `--sentinel`. */
export function redisBinary(flavor: RedisFlavor = 'redis'): string {
  const chosen = flavor === 'redis' ? process.env[SERVER_VARIABLE] : undefined
  const name = chosen ?? `${flavor}-server`
  const found = isAbsolute(name) ? [name] : pathFolders().map((folder) => join(folder, name))
  const binary = found.find(isExecutable)
  if (binary !== undefined) return binary
  throw new Error(
    `${name} was not found. Install it with \`apt-get install ${flavor}-server\`, ` +
      `or set ${SERVER_VARIABLE} to the path of a redis-server.`,
  )
}

function pathFolders(): string[] {
  return (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
