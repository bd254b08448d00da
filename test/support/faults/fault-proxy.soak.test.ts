import { spawnSync } from 'node:child_process'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { type Dialled, dial } from './dial.ts'
import { type FaultProxy, startFaultProxy, startFaultProxyProcess } from './fault-proxy.ts'

const PING = 'PING\r\n'
const PONG = '+PONG\r\n'

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

describe.each([
  ['in this process', startFaultProxy],
  ['in a process of its own', startFaultProxyProcess],
])('a fault proxy %s', (_, start) => {
  const dialled: Dialled[] = []
  let proxy: FaultProxy

  beforeAll(async () => {
    proxy = await start(redis)
  })
  beforeEach(async () => {
    await proxy.clear()
    await redis.command('FLUSHALL')
  })
  afterEach(() => {
    for (const connection of dialled.splice(0)) connection.close()
  })
  afterAll(() => proxy.stop())

  function open(): Dialled {
    const connection = dial(proxy)
    dialled.push(connection)
    return connection
  }

  async function openAndPing(): Promise<Dialled> {
    const connection = open()
    connection.send(PING)
    await until('there is an answer', () => connection.received === PONG)
    return connection
  }

  test('keeps the order of bytes under jitter', async () => {
    await proxy.set({ jitterMs: 10, bytesPerSecond: 100_000 })
    const connection = open()
    const texts = Array.from({ length: 100 }, (_, index) => `text-${index + 100}`)
    for (const text of texts) {
      connection.send(`ECHO ${text}\r\n`)
      await new Promise(setImmediate)
    }
    const expected = texts.map((text) => `$8\r\n${text}\r\n`).join('')
    await until('all has come', () => connection.received.length >= expected.length)
    expect(connection.received).toBe(expected)
  })

  test('passes as much as is sent, far beyond what it holds at once', async () => {
    await proxy.set({ bytesPerSecond: 50_000_000 })
    const connection = open()
    const value = 'x'.repeat(2 ** 21)
    connection.send(`SET key ${'x'.repeat(1000)}\r\nSETRANGE key ${value.length - 1} x\r\n`)
    connection.send('GET key\r\n')
    await until('all has come', () => connection.received.length > value.length)
    const { requestBytes, replyBytes } = await proxy.traffic()
    expect(requestBytes).toBeGreaterThan(1000)
    expect(replyBytes).toBeGreaterThan(value.length)
  })

  test('delays both directions of an open connection, or one', async () => {
    const connection = await openAndPing()
    for (const [faults, delayMs] of [
      [{ latencyMs: 40 }, 80],
      [{ requests: { latencyMs: 50 } }, 50],
      [{ replies: { latencyMs: 50 } }, 50],
    ] as const) {
      await proxy.set(faults)
      const { length } = connection.received
      const sentMs = performance.now()
      connection.send(PING)
      await until('there is an answer', () => connection.received.length > length)
      expect(performance.now() - sentMs).toBeGreaterThanOrEqual(delayMs)
    }
  })

  test('lets so many bytes per second pass', async () => {
    await redis.command('SET', 'key', 'x'.repeat(20_000))
    await proxy.set({ replies: { bytesPerSecond: 100_000 } })
    const connection = open()
    const sentMs = performance.now()
    connection.send('GET key\r\n')
    await until('all has come', () => connection.received.length > 20_000)
    expect(performance.now() - sentMs).toBeGreaterThanOrEqual(200)
  })

  test('resets new connections while it refuses, and leaves open ones alone', async () => {
    const connection = await openAndPing()
    await proxy.set({ refuse: true })
    const refused = await proxy.traffic()
    const other = open()
    await until('it is reset', () => other.state === 'reset')
    expect((await proxy.traffic()).refused - refused.refused).toBe(1)
    connection.send(PING)
    await until('there is an answer', () => connection.received === PONG + PONG)
  })

  test('hangs without an end, and goes on when it is cleared', async () => {
    const before = await openAndPing()
    await proxy.set({ hang: true })
    const { requestBytes } = await proxy.traffic()
    const during = open()
    before.send('SET before 1\r\n')
    during.send('SET during 1\r\n')
    await untilReceived(proxy, requestBytes + 28)
    expect(await redis.command('MGET', 'before', 'during')).toEqual([null, null])
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal')
    await proxy.traffic()
    expect([before.state, during.state]).toEqual(['open', 'open'])
    expect([before.received, during.received]).toEqual([PONG, ''])
    await proxy.clear()
    await until('the end has come', () => before.state !== 'open' && during.state !== 'open')
  })

  test('hangs in one direction only', async () => {
    const connection = await openAndPing()
    await proxy.set({ replies: { hang: true } })
    connection.send('SET key 1\r\n')
    await until('the server has it', async () => (await redis.command('GET', 'key')) === '1')
    expect(connection.received).toBe(PONG)
    await proxy.clear()
    await until('there is an answer', () => connection.received === `${PONG}+OK\r\n`)
  })

  test('freezes what is open for good, and serves what comes after', async () => {
    const frozen = await openAndPing()
    await proxy.freeze()
    frozen.send(PING)
    await openAndPing()
    await proxy.clear()
    await openAndPing()
    expect([frozen.received, frozen.state]).toEqual([PONG, 'open'])
  })

  test('cuts all connections with a reset', async () => {
    const connections = await Promise.all([openAndPing(), openAndPing()])
    await proxy.cut()
    await until('they are reset', () => connections.every(({ state }) => state === 'reset'))
    await until('the proxy has none', async () => (await proxy.traffic()).open === 0)
  })

  test('resets a connection in the middle of a reply', async () => {
    await redis.command('SET', 'key', 'a long value')
    const connection = await openAndPing()
    await proxy.set({ resetMidReply: { afterBytes: 7 } })
    connection.send('GET key\r\n')
    await until('it is reset', () => connection.state === 'reset')
    expect(connection.received).toBe(`${PONG}$12\r\na `)
  })

  test('cuts after the request: it is done, and the client is not told', async () => {
    const connection = await openAndPing()
    await proxy.set({ cutAfterRequest: { times: 1 } })
    connection.send('INCR key\r\n')
    await until('it is reset', () => connection.state === 'reset')
    expect(connection.received).toBe(PONG)
    expect(await redis.command('GET', 'key')).toBe('1')
    await openAndPing()
  })

  test('passes on the end of a connection and its reset', async () => {
    const name = `CLIENT SETNAME x${proxy.port}\r\n`
    const connection = open()
    connection.send(name)
    await until('there is an answer', () => connection.received === '+OK\r\n')
    connection.close()
    await until('the server knows', async () => {
      return !String(await redis.command('CLIENT', 'LIST')).includes(`x${proxy.port}`)
    })
    const quitting = open()
    quitting.send('QUIT\r\n')
    await until('it has ended', () => quitting.state === 'ended')
  })

  test('counts connections, in all and in the busiest second', async () => {
    const { accepted } = await proxy.traffic()
    for (let count = 0; count < 20; count += 1) open()
    const traffic = await until('all were accepted', async () => {
      const now = await proxy.traffic()
      return now.accepted >= accepted + 20 && now
    })
    expect(traffic.accepted - accepted).toBe(20)
    expect(traffic.open).toBeGreaterThanOrEqual(20)
    expect(traffic.acceptedAtMs).toHaveLength(traffic.accepted)
    const [first = 0] = traffic.acceptedAtMs.slice(-20)
    const isWithinSecond = (traffic.acceptedAtMs.at(-1) ?? 0) - first < 1000
    expect(traffic.acceptedPerSecondMax).toBeGreaterThanOrEqual(isWithinSecond ? 20 : 1)
  })
})

test('resets connections when the server is gone', async () => {
  const server = await startRedis()
  const proxy = await startFaultProxy(server)
  await server.stop()
  const connection = dial(proxy)
  await until('it is reset', () => connection.state === 'reset')
  await proxy.stop()
})

test('a proxy in a process of its own works while this process is busy', async () => {
  const proxy = await startFaultProxyProcess(redis)
  const script = `const socket = require('node:net').connect(${proxy.port}, '${proxy.host}')
    socket.write('PING\\r\\n')
    socket.once('data', (data) => { process.stdout.write(data); socket.destroy() })`
  const { stdout } = spawnSync(process.execPath, ['--eval', script], { timeout: 20_000 })
  expect(stdout.toString()).toBe(PONG)
  await proxy.stop()
})

async function untilReceived(proxy: FaultProxy, bytes: number): Promise<void> {
  await until('the proxy has it', async () => (await proxy.traffic()).requestBytes >= bytes)
}
