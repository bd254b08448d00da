import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../../../test/support/servers/redis.ts'
import { newKey, newScript } from './client-contract.ts'
import { evalshaSender, type SendEvalsha } from './evalsha-command.ts'

let server: RedisServer

beforeAll(async () => {
  server = await startRedis()
})

afterAll(() => server?.stop())

describe.each([
  { name: 'ioredis 6', open: (options: object) => new Redis({ ...options, port: server.port }) },
  {
    name: 'ioredis 5',
    open: (options: object) => new Redis5({ ...options, port: server.port }) as unknown as Redis,
  },
])('$name', ({ open }) => {
  const client = () => connected(open({}))

  it.each([
    ['a number', 'return 7', 7],
    ['numbers', 'return { 1, -2, 9007199254740900 }', [1, -2, 9007199254740900]],
    [
      'nested arrays, strings and nil',
      "return { 1, { 'zwölf', { 3 } }, false }",
      [1, ['zwölf', [3]], null],
    ],
    [
      'keys and arguments',
      'return { KEYS, ARGV }',
      [
        ['tg:ü', 'tg:2'],
        ['世界', '', '1'],
      ],
    ],
  ])('gives %s as the client does', async (_what, lua, expected) => {
    const redis = await client()
    const sha1 = await load(redis, lua)
    const reply = await replyOf(await senderOf(redis), sha1, ['tg:ü', 'tg:2'], ['世界', '', '1'])
    expect(reply).toEqual(expected)
    redis.disconnect()
  })

  it('sends the arguments of each call, also behind another call', async () => {
    const redis = await client()
    const sha1 = await load(redis, 'return { #KEYS, ARGV[1] }')
    const send = await senderOf(redis)
    const shared = ['same']
    const replies = [
      replyOf(send, sha1, [newKey()], shared),
      replyOf(send, sha1, [newKey()], ['other']),
      redis.get('tg:none'),
      replyOf(send, sha1, ['tg:1', 'tg:2'], shared),
    ]
    expect(await Promise.all(replies)).toEqual([[1, 'same'], [1, 'other'], null, [2, 'same']])
    redis.disconnect()
  })

  it('gives replies in their order, those of the client included', async () => {
    const redis = await client()
    const sha1 = await load(redis, 'return ARGV[1]')
    const send = await senderOf(redis)
    const order: unknown[] = []
    const add = (reply: unknown) => order.push(reply)
    const own = (name: string) => redis.evalsha(sha1, 1, 'tg:1', name).then(add)
    const first = own('1')
    send(sha1, ['tg:1'], ['2'], add, fail)
    send('0'.repeat(40), ['tg:1'], [], fail, () => add('3'))
    const fourth = own('4')
    send(sha1, ['tg:1'], ['5'], add, fail)
    await Promise.all([first, fourth, own('6')])
    expect(order).toEqual(['1', '2', '3', '4', '5', '6'])
    redis.disconnect()
  })

  it("rejects with the server's error, which names the command", async () => {
    const redis = await client()
    const { sha1 } = newScript('return 1')
    await expect(replyOf(await senderOf(redis), sha1, ['tg:1'], ['2'])).rejects.toMatchObject({
      message: expect.stringMatching(/^NOSCRIPT /),
      command: { name: 'evalsha', args: [sha1, '1', 'tg:1', '2'] },
    })
    redis.disconnect()
  })

  it('rejects commands under way if the connection ends', async () => {
    const redis = await connected(open({ retryStrategy: null }))
    redis.on('error', () => undefined)
    const sha1 = await load(redis, 'return 1')
    const send = await senderOf(redis)
    const before = redis.blpop(newKey(), 0)
    const reply = replyOf(send, sha1, [newKey()], [])
    redis.disconnect()
    await expect(before).rejects.toThrow(/closed/i)
    await expect(reply).rejects.toThrow(/closed/i)
  })

  it('is sent again, as other commands of the client are, if the connection was lost', async () => {
    const redis = await client()
    const other = await client()
    const sha1 = await load(redis, 'return 2')
    const list = newKey()
    const send = await senderOf(redis)
    const before = redis.blpop(list, 0)
    const reply = replyOf(send, sha1, [newKey()], [])
    const isBack = once(redis, 'ready')
    await other.call('CLIENT', 'KILL', 'TYPE', 'normal')
    await isBack
    await other.rpush(list, 'x')
    expect(await before).toEqual([list, 'x'])
    expect(await reply).toBe(2)
    for (const each of [redis, other]) each.disconnect()
  })

  it('sends nothing while the client is not connected', async () => {
    const redis = await client()
    const send = await senderOf(redis)
    redis.disconnect()
    expect(send('0'.repeat(40), ['tg:1'], [], fail, fail)).toBe(false)
  })

  it.each([
    { keyPrefix: 'app:' },
    { commandTimeout: 1_000 },
    { enableAutoPipelining: true },
    { showFriendlyErrorStack: true },
  ])('leaves a client with %o alone', (options) => {
    const redis = open({ lazyConnect: true, ...options })
    expect(evalshaSender(redis)).toBeUndefined()
    redis.disconnect()
  })
})

it('has the outcome for a tool that replaces the method which sends commands', async () => {
  const redis = await connected(new Redis(server.url))
  const sha1 = await load(redis, 'return 7')
  const send = await senderOf(redis)
  const outcomes: unknown[] = []
  const original = redis.sendCommand.bind(redis)
  redis.sendCommand = (command) => {
    const sent = original(command)
    outcomes.push(command.promise.catch(({ message }: Error) => message))
    return sent
  }
  await replyOf(send, sha1, ['tg:1'], [])
  await replyOf(send, '0'.repeat(40), ['tg:1'], []).catch(() => undefined)
  expect(await Promise.all(outcomes)).toEqual([7, expect.stringMatching(/^NOSCRIPT /)])
  redis.disconnect()
})

it('leaves commands that are traced to the client', async () => {
  const redis = await connected(new Redis(server.url))
  const send = await senderOf(redis)
  const channel = diagnostics.tracingChannel('ioredis:command')
  const subscriber = { start() {}, end() {}, asyncStart() {}, asyncEnd() {}, error() {} }
  channel.subscribe(subscriber)
  expect(send('0'.repeat(40), ['tg:1'], [], fail, fail)).toBe(false)
  channel.unsubscribe(subscriber)
  redis.disconnect()
})

it('leaves a client alone whose commands have parts that are not known', async () => {
  const redis = await connected(new Redis(server.url))
  const sender = evalshaSender(redis)
  const reply = redis.evalsha('0'.repeat(40), 1, 'tg:1')
  const command = Reflect.get(redis, 'commandQueue').peekBack()?.command ?? {}
  Object.assign(command, { newField: true })
  expect(sender?.learn()).toBe(true)
  await reply.catch(() => undefined)
  expect(sender?.send('0'.repeat(40), ['tg:1'], [], fail, fail)).toBe(false)
  redis.disconnect()
})

it('leaves clients with methods of their own, clusters and other clients alone', () => {
  const redis = new Redis(server.url, { lazyConnect: true })
  const wrapped = Object.assign(redis, { evalsha: redis.evalsha.bind(redis) })
  expect(evalshaSender(wrapped)).toBeUndefined()
  redis.disconnect()
  const fake = { isCluster: false, options: {}, sendCommand() {} }
  expect(evalshaSender(fake)).toBeUndefined()
})

/** The first call is one of the client's own. */
async function senderOf(client: Redis): Promise<SendEvalsha> {
  const sender = evalshaSender(client)
  if (sender === undefined) throw new Error('the client has no faster way')
  expect(sender.send('0'.repeat(40), ['tg:1'], [], fail, fail)).toBe(false)
  const reply = client.evalsha('0'.repeat(40), 1, 'tg:1')
  expect(sender.learn()).toBe(true)
  await reply.catch(() => undefined)
  return sender.send
}

function replyOf(
  send: SendEvalsha,
  sha1: string,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    if (!send(sha1, keys, args, resolve, reject)) reject(new Error('not sent'))
  })
}

async function connected(client: Redis): Promise<Redis> {
  await client.ping()
  return client
}

async function load(client: Redis, lua: string): Promise<string> {
  const { text, sha1 } = newScript(lua)
  await client.script('LOAD', text)
  return sha1
}

function fail(): never {
  throw new Error('must not be called')
}
