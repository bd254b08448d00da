/** The ACL line of docs/redis.md is enough for everything that the store does, and no more. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import { storeContract } from '../../packages/tidegate/src/stores/store-contract.ts'
import { type ConnectedClient, redisClientKinds } from '../servers/clients.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { readText, repositoryRoot } from '../source-file.ts'

const documented = /^user limiter .*$/m.exec(readText('docs/redis.md'))?.[0] ?? ''

const lua = 'packages/tidegate/src/stores/redis/lua'

/** The document says so: without it, ioredis works but prints a warning. */
const ofIoredis = `${documented.replace('limiter', 'ioredis')} +info`

let server: RedisServer

beforeAll(async () => {
  server = await startRedis({ acl: [documented, ofIoredis] })
})

afterAll(() => server?.stop())

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
    return redisStore(connection.client, { prefix, clock })
  })

  it('may not touch the keys of others', async () => {
    const { client } = connection
    const store = redisStore(client, { prefix: 'other' })
    const limit = { algorithm: 'slidingLog', limit: 1, perMs: 1000 } as const
    const charged = store.charge([{ name: 'limit', key: 'key', limit, cost: 1 }], 'all')
    await expect(charged).rejects.toThrow(/NOPERM/)
  })
})

it('the documented commands are those of the scripts', () => {
  const files = readdirSync(join(repositoryRoot, lua)).filter((file) => file.endsWith('.lua'))
  const texts = files.map((file) => readText(`${lua}/${file}`)).join('\n')
  const called = Array.from(texts.matchAll(/\bp?call\('([A-Z]+)'/g), ([, name = '']) => name)
  const allowed = Array.from(documented.matchAll(/\+(\w+)/g), ([, name = '']) => name.toUpperCase())
  expect(new Set(allowed)).toEqual(new Set(['EVALSHA', 'EVAL', ...called]))
})
