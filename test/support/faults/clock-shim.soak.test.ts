import { spawnSync } from 'node:child_process'
import { beforeEach, describe, expect, test } from 'vitest'
import { makeFolder, removeFolder } from '../servers/server-process.ts'
import { until } from '../servers/until.ts'
import { clockProblem, makeShiftedClock, startShiftedRedis } from './clock-shim.ts'

const HOUR_MS = 3_600_000
/** The tolerance between reading two clocks, also on a slow machine. */
const SLACK_MS = 20_000

const problem = clockProblem()

describe('a shifted clock', () => {
  beforeEach(({ skip }) => skip(problem !== undefined, problem))

  test('moves the TIME of a running Redis by an hour and back', async () => {
    const { redis, clock } = await startShiftedRedis()
    for (const shiftMs of [0, HOUR_MS, -HOUR_MS, HOUR_MS + 999, -HOUR_MS - 999, 0]) {
      clock.shift(shiftMs)
      const [seconds, microseconds] = (await redis.command('TIME')) as [string, string]
      const offsetMs = Number(seconds) * 1000 + Number(microseconds) / 1000 - Date.now()
      expect(Math.abs(offsetMs - shiftMs)).toBeLessThan(SLACK_MS)
      expect(microseconds).toMatch(/^\d{1,6}$/)
    }
    await redis.stop()
  })

  test('makes keys of a minute vanish at once, an hour ahead', async () => {
    const { redis, clock } = await startShiftedRedis()
    await redis.command('SET', 'key', 'value', 'EX', 60)
    clock.shift(HOUR_MS)
    await until('the key is gone', async () => (await redis.command('GET', 'key')) === null)
    await redis.stop()
  })

  test('makes keys of a minute last an hour more, an hour behind', async () => {
    const { redis, clock } = await startShiftedRedis()
    await redis.command('SET', 'key', 'value', 'EX', 60)
    clock.shift(-HOUR_MS)
    expect(Number(await redis.command('TTL', 'key'))).toBeGreaterThan(3600)
    await redis.stop()
  })

  test('is also had by a Node process, whose monotonic clock stays', () => {
    const folder = makeFolder()
    const clock = makeShiftedClock(folder)
    clock.shift(HOUR_MS)
    const [command = '', ...prefix] = clock.prefix
    const script =
      'console.log(JSON.stringify([Date.now(), Number(process.hrtime.bigint()) / 1e6]))'
    const args = [...prefix, process.execPath, '--eval', script]
    const [wallMs, machineMs] = JSON.parse(spawnSync(command, args, { encoding: 'utf8' }).stdout)
    expect(Math.abs(wallMs - Date.now() - HOUR_MS)).toBeLessThan(SLACK_MS)
    expect(Math.abs(machineMs - Number(process.hrtime.bigint()) / 1e6)).toBeLessThan(SLACK_MS)
    removeFolder(folder)
  })
})
