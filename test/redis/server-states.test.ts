/**
 * A server that runs but cannot or will not serve: the store reports the reason, charges no group
 * partly, and works again when the cause is gone.
 */

import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ErrorCode } from '../../packages/tidegate/src/errors.ts'
import { fixedWindow, tokenBucket } from '../../packages/tidegate/src/index.ts'
import { RedisKeys } from '../../packages/tidegate/src/stores/redis/redis-key.ts'
import { redisStore } from '../../packages/tidegate/src/stores/redis/redis-store.ts'
import type { Counter, Store } from '../../packages/tidegate/src/stores/store.ts'
import { PATIENCE_MS } from '../support/patience.ts'
import { type ConnectedClient, patientClientKinds } from '../support/servers/clients.ts'
import { freePort } from '../support/servers/ports.ts'
import { type RedisServer, startRedis } from '../support/servers/redis.ts'
import { until } from '../support/servers/until.ts'
import { remaining } from './traffic.ts'

const LIMIT = 100

const bucket = tokenBucket({ limit: LIMIT, per: '365d' })
const window = fixedWindow({ limit: LIMIT, per: '30d' })

interface State {
  readonly name: string
  readonly code: ErrorCode
  /** Matches the error of the server. */
  readonly message: RegExp
  begin(server: Redis): Promise<unknown>
  end(server: Redis): Promise<unknown>
}

/** Runs until it is observed, and is then killed. */
const BUSY_SCRIPT = "while redis.call('TIME')[1] + 0 < ARGV[1] + 20 do end return 1"

/** Enough keys that loading takes half a minute, unless the delay is set to 0 meanwhile. */
const FILLER_KEYS = 30_000
const KEY_LOAD_DELAY_US = 1_000

const states: readonly State[] = [
  {
    name: 'has become a replica',
    code: 'store-failed',
    message: /READONLY/,
    begin: async (server) => server.replicaof('127.0.0.1', await freePort()),
    end: (server) => server.replicaof('NO', 'ONE'),
  },
  {
    name: 'is a replica that has lost its master and may not answer without',
    code: 'store-failed',
    message: /MASTERDOWN/,
    async begin(server) {
      await server.config('SET', 'replica-serve-stale-data', 'no')
      await server.replicaof('127.0.0.1', await freePort())
    },
    async end(server) {
      await server.replicaof('NO', 'ONE')
      await server.config('SET', 'replica-serve-stale-data', 'yes')
    },
  },
  {
    name: 'loads its data',
    code: 'store-failed',
    message: /LOADING/,
    async begin(server) {
      await server.config('SET', 'key-load-delay', KEY_LOAD_DELAY_US)
      await server.config('SET', 'loading-process-events-interval-bytes', 1024)
      await server.call('DEBUG', 'POPULATE', FILLER_KEYS, 'filler')
      const watcher = server.duplicate({ enableReadyCheck: false })
      await watcher.ping()
      // Ends before the next command of this connection.
      server.call('DEBUG', 'RELOAD').catch(() => undefined)
      await until('it loads', async () => (await watcher.info('persistence')).includes('loading:1'))
      watcher.disconnect()
    },
    async end(server) {
      const other = server.duplicate({ enableReadyCheck: false })
      await other.config('SET', 'key-load-delay', 0)
      other.disconnect()
      // Waits until the data are loaded.
      await server.ping()
    },
  },
  {
    name: 'is busy with a script of another client',
    code: 'store-failed',
    message: /BUSY/,
    async begin(server) {
      await server.config('SET', 'busy-reply-threshold', 1)
      const other = server.duplicate()
      const [seconds] = await server.time()
      other.eval(BUSY_SCRIPT, 0, String(seconds)).then(
        () => other.disconnect(),
        () => other.disconnect(),
      )
      await until('it is busy', () => server.ping().then(() => false, isBusy))
    },
    async end(server) {
      await server.script('KILL')
      await until('it is not busy', () => server.ping().then(Boolean))
      await server.config('SET', 'busy-reply-threshold', 5000)
    },
  },
  {
    name: 'has no memory left',
    code: 'store-failed',
    message: /OOM/,
    begin: (server) => server.config('SET', 'maxmemory', 1),
    end: (server) => server.config('SET', 'maxmemory', 0),
  },
  {
    name: 'has too few replicas to write',
    code: 'store-failed',
    message: /NOREPLICAS/,
    begin: (server) => server.config('SET', 'min-replicas-to-write', 1),
    end: (server) => server.config('SET', 'min-replicas-to-write', 0),
  },
  {
    // The client gets the error when it connects; a request only fails for lack of a connection.
    name: 'takes no more connections',
    code: 'store-unreachable',
    message: /offline|closed|isn't writeable|max|ECONNRESET|EPIPE/,
    async begin(server) {
      await server.config('SET', 'maxclients', 1)
      await killOthers(server)
    },
    end: (server) => server.config('SET', 'maxclients', 1000),
  },
  {
    name: 'allows no scripts to its user',
    code: 'store-misconfigured',
    message: /NOPERM/,
    begin: (server) => server.acl('SETUSER', 'default', '-evalsha', '-eval'),
    end: (server) => server.acl('SETUSER', 'default', '+evalsha', '+eval'),
  },
  {
    name: 'allows other keys to its user',
    code: 'store-misconfigured',
    message: /NOPERM/,
    begin: (server) => server.acl('SETUSER', 'default', 'resetkeys', '~other*'),
    end: (server) => server.acl('SETUSER', 'default', '~*'),
  },
]

let server: RedisServer
/** A connection that stays open when the server accepts no other. */
let admin: Redis

beforeAll(async () => {
  server = await startRedis({ args: ['--enable-debug-command', 'yes'] })
  admin = new Redis({ host: server.host, port: server.port, protocol: 2 })
})

afterAll(async () => {
  admin?.disconnect()
  await server?.stop()
})

describe.each(patientClientKinds)('$name, when the server', (kind) => {
  const prefix = `tg-${kind.name.replace(' ', '-')}-`
  let connection: ConnectedClient
  let store: Store

  beforeAll(async () => {
    connection = await kind.single(server)
    store = redisStore(connection.client, { prefix, timeoutMs: PATIENCE_MS })
  })

  afterAll(() => connection?.close())

  it.each(states)('$name, reports $code and charges nothing', async (state) => {
    const counters = [
      { name: 'first', key: state.name, limit: bucket },
      { name: 'second', key: state.name, limit: window },
    ]
    await charge(store, counters)
    await state.begin(admin)
    try {
      const expected = { code: state.code, message: expect.stringMatching(state.message) }
      await expect.soft(charge(store, counters)).rejects.toMatchObject(expected)
      const [single] = counters
      if (single) await expect.soft(charge(store, [single])).rejects.toHaveProperty('code')
    } finally {
      await state.end(admin)
    }
    const left = await until('the store works again', () => remaining(store, counters))
    expect(left).toEqual([LIMIT - 1, LIMIT - 1])
  })

  it('has another type under a key, reports store-misconfigured, charges nothing', async () => {
    const keys = new RedisKeys(prefix)
    const wrong = { name: 'wrong', key: 'type', limit: bucket }
    const right = { name: 'right', key: 'type', limit: window }
    await admin.hset(keys.ofCounter(wrong), 'a', 'b')
    const expected = { code: 'store-misconfigured', message: expect.stringMatching(/WRONGTYPE/) }
    await expect(charge(store, [wrong])).rejects.toMatchObject(expected)
    await expect(charge(store, [right, wrong])).rejects.toMatchObject(expected)
    expect(await remaining(store, [right])).toEqual([LIMIT])
  })
})

describe('a client that has not said who it is', () => {
  it.each(['ioredis', 'node-redis'])('%s gets store-misconfigured', async (library) => {
    const secret = await startRedis({ password: 'secret' })
    const { client, close } = await connectUnnamed(library, secret)
    try {
      const counter = { name: 'limit', key: 'ada', limit: bucket }
      const expected = { code: 'store-misconfigured', message: expect.stringMatching(/NOAUTH/) }
      await expect(
        charge(redisStore(client, { timeoutMs: PATIENCE_MS }), [counter]),
      ).rejects.toMatchObject(expected)
    } finally {
      close()
      await secret.stop()
    }
  })
})

async function charge(store: Store, counters: readonly Counter[]) {
  const group = counters.map((counter) => ({ ...counter, cost: 1 }))
  return await store.charge(group, 'all')
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('BUSY')
}

async function killOthers(server: Redis): Promise<void> {
  await server.call('CLIENT', 'KILL', 'TYPE', 'NORMAL', 'SKIPME', 'YES')
}

/** With RESP2 and without a ready check, connecting needs no permission. */
async function connectUnnamed(library: string, { host, port }: RedisServer) {
  if (library === 'ioredis') {
    const client = new Redis({ host, port, protocol: 2, enableReadyCheck: false })
    return { client, close: () => client.disconnect() }
  }
  const client = await createClient({ socket: { host, port }, RESP: 2 }).connect()
  return { client, close: () => client.destroy() }
}
