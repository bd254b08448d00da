import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { LOOPBACK } from './ports.ts'
import { startRedis } from './redis.ts'
import { redisBinary } from './redis-binary.ts'
import { startSentinel } from './sentinel.ts'
import { until } from './until.ts'

describe('startRedis', () => {
  test('starts an empty server again on the same port', async () => {
    const server = await startRedis()
    const { pid, port } = server
    await server.command('SET', 'key', 'value')
    await server.restart()
    expect(server.pid).not.toBe(pid)
    expect(server.port).toBe(port)
    expect(await server.command('GET', 'key')).toBeNull()
    await server.stop()
    expect(await isListening(port)).toBe(false)
  })

  test('says why a server has not started', async () => {
    await expect(startRedis({ args: ['--maxmemory', 'lots'] })).rejects.toThrow(/maxmemory/)
  })

  test('leaves no server behind when the process that started it is killed', async () => {
    const redis = join(import.meta.dirname, 'redis.ts')
    const script = `const { startRedis } = await import(${JSON.stringify(redis)})
      console.log((await startRedis()).port)
      await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1))`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script])
    const [output] = await once(child.stdout, 'data')
    const port = Number(output)
    expect(await isListening(port)).toBe(true)
    child.kill('SIGKILL')
    await until('the server is gone', async () => !(await isListening(port)))
  })
})

describe('startSentinel', () => {
  test('names another master when the first one has died', async () => {
    const group = await startSentinel({ replicas: 1, sentinels: 1, downAfterMs: 1_000 })
    const first = await group.master()
    first.kill('SIGKILL')
    const next = await until('there is another master', async () => {
      const master = await group.master()
      return master.port !== first.port && master
    })
    expect(String(await next.command('ROLE'))).toContain('master')
    await group.stop()
  })
})

describe('redisBinary', () => {
  afterEach(() => void vi.unstubAllEnvs())

  test.each([
    ['redis', 'redis-server was not found. Install it with `apt-get install redis-server`'],
    ['valkey', 'valkey-server was not found. Install it with `apt-get install valkey-server`'],
  ] as const)('says what to install where there is no %s', (flavor, message) => {
    vi.stubEnv('PATH', import.meta.dirname)
    expect(() => redisBinary(flavor)).toThrow(message)
  })

  test('takes the server that a variable names', () => {
    vi.stubEnv('TIDEGATE_REDIS_SERVER', process.execPath)
    expect(redisBinary()).toBe(process.execPath)
  })
})

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, LOOPBACK)
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}
