import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { dial } from './dial.ts'
import { crash, pause, whilePaused } from './pause.ts'

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedis()
})
afterAll(() => redis.stop())

describe('pause', () => {
  test('leaves a server connected and silent until it is resumed', async () => {
    const connection = dial(redis)
    connection.send('PING\r\n')
    await until('there is an answer', () => connection.received === '+PONG\r\n')
    const resume = await pause(redis)
    connection.send('PING\r\n')
    const other = dial(redis)
    other.send('PING\r\n')
    await expect(isAnsweredSoon()).resolves.toBe(false)
    expect([connection.received, other.received]).toEqual(['+PONG\r\n', ''])
    expect([connection.state, other.state]).toEqual(['open', 'open'])
    await resume()
    await until('both are answered', () => other.received + connection.received !== '+PONG\r\n')
    connection.close()
    other.close()
  })

  // Fails on purpose: the next test checks the state that it leaves behind.
  test.fails('of a test that fails', async () => {
    await pause(redis)
    throw new Error('it fails')
  })

  test('ends with the test, also when that failed', async () => {
    expect(await redis.command('PING')).toBe('PONG')
  })

  test('is over after what runs meanwhile has thrown', async () => {
    const run = () => Promise.reject(new Error('it fails'))
    await expect(whilePaused(redis, run)).rejects.toThrow('it fails')
    expect(await redis.command('PING')).toBe('PONG')
  })
})

describe('crash', () => {
  test('ends a server also when it is paused', async () => {
    const { pid } = redis
    await pause(redis)
    await crash(redis)
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    await redis.restart()
    expect(await redis.command('PING')).toBe('PONG')
  })
})

/** Waits about a hundred times as long as an answer takes. */
function isAnsweredSoon(): Promise<boolean> {
  const answered = redis.command('PING').then(() => true)
  const late = new Promise<boolean>((resolve) => setTimeout(resolve, 100, false))
  return Promise.race([answered, late])
}
