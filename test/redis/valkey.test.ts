/** The store on Valkey, if it is installed: `apt-get install valkey-server`. */

import { afterAll, beforeAll, describe, it } from 'vitest'
import { storeContract } from '../../packages/tidegate/src/stores/contract/store-contract.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { redisBinary } from '../support/servers/redis-binary.ts'

const missing = whatIsMissing()

describe('on Valkey', () => {
  if (missing !== undefined) {
    // Most machines have Redis or Valkey, but not both.
    it.skip(missing, () => {})
    return
  }

  let server: RedisServer

  beforeAll(async () => {
    server = await startRedis({ flavor: 'valkey' })
  })

  afterAll(() => server?.stop())

  describe.each(patientClientKinds)('$name', (kind) => {
    let connection: ConnectedClient
    let stores = 0

    beforeAll(async () => {
      connection = await kind.single(server)
    })

    afterAll(() => connection?.close())

    storeContract((clock) => {
      const prefix = `${kind.name.replace(' ', '-')}:${stores++}:`
      return redisStore(connection.client, { prefix, clock, timeoutMs: PATIENCE_MS })
    })
  })
})

function whatIsMissing(): string | undefined {
  try {
    redisBinary('valkey')
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
