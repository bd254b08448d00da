/** A store on a Redis server that does not exist. */

import type { Store } from 'tidegate'
import { onTestFinished } from 'vitest'
import { createStore } from '../../../packages/server/src/stores/create-store.ts'
import { freePort, LOOPBACK } from '../../support/servers/ports.ts'

/** Closed when the test ends. */
export async function openAbsentStore(): Promise<Store> {
  const addresses = [`${LOOPBACK}:${await freePort()}`]
  const { store, close } = createStore({ mode: 'standalone', addresses })
  onTestFinished(close)
  return store
}
