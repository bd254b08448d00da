/** A server for all tests of a file. */

import { beforeAll } from 'vitest'

/**
 * Starts a server before the tests of this file or `describe`, and stops it after them. The result
 * can be used inside hooks and tests only.
 */
export function useServer<T extends { stop(): Promise<void> }>(start: () => Promise<T>): T {
  let started: T | undefined
  beforeAll(async () => {
    started = await start()
    return () => started?.stop()
  })
  const server = () => {
    if (started === undefined) throw new Error('the server starts before the first test')
    return started
  }
  return new Proxy({} as T, {
    get: (_, name) => Reflect.get(server(), name),
    ownKeys: () => Reflect.ownKeys(server()),
    getOwnPropertyDescriptor(_, name) {
      const descriptor = Reflect.getOwnPropertyDescriptor(server(), name)
      // A proxy can only have properties of its empty target, or configurable ones.
      return descriptor && { ...descriptor, configurable: true }
    },
  })
}
