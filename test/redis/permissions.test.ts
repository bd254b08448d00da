/** The ACL line of docs/redis.md allows exactly the commands that the store needs. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { storeContract } from '../../packages/tidegate/src/stores/contract/store-contract.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { readText, repositoryRoot } from '../house/source-file.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, redisClientKinds } from '../support/servers/clients.ts'
import { startRedis } from '../support/servers/redis.ts'
import { useServer } from '../support/use-server.ts'

const documented = /^user limiter .*$/m.exec(readText('docs/redis.md'))?.[0] ?? ''

const lua = 'packages/tidegate/src/stores/redis/scripts/lua'

/** As documented: without it, ioredis works but prints a warning. */
const ofIoredis = `${documented.replace('limiter', 'ioredis')} +info`

const server = useServer(() => startRedis({ acl: [documented, ofIoredis] }))

describe.each(redisClientKinds)('with the documented permissions, $name', (kind) => {
  let connection: ConnectedClient
  let stores = 0

  beforeAll(async () => {
    const username = kind.name.startsWith('ioredis') ? 'ioredis' : 'limiter'
    connection = await kind.single({ ...server, username, password: 'secret' })
  })

  afterAll(() => connection?.close())

  storeContract((clock) => {
    const prefix = `tg:${kind.name.replace(' ', '-')}:${stores++}:`
    return redisStore(connection.client, { prefix, clock, timeoutMs: PATIENCE_MS })
  })

  it('may not touch the keys of others', async () => {
    const { client } = connection
    const store = redisStore(client, { prefix: 'other', timeoutMs: PATIENCE_MS })
    const limit = { algorithm: 'slidingLog', limit: 1, perMs: 1000 } as const
    const charged = store.charge([{ name: 'limit', key: 'key', limit, cost: 1 }], 'all')
    await expect(charged).rejects.toThrow(/NOPERM/)
  })
})

it('the documented commands are those of the scripts', () => {
  const paths = readdirSync(join(repositoryRoot, lua), { recursive: true, encoding: 'utf8' })
  const files = paths.filter((file) => file.endsWith('.lua'))
  const texts = files.map((file) => readText(`${lua}/${file}`)).join('\n')
  const called = Array.from(texts.matchAll(/\bp?call\('([A-Z]+)'/g), ([, name = '']) => name)
  const allowed = Array.from(documented.matchAll(/\+(\w+)/g), ([, name = '']) => name.toUpperCase())
  expect(new Set(allowed)).toEqual(new Set(['EVALSHA', 'EVAL', ...called]))
})
