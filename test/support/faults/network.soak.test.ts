import { spawnSync } from 'node:child_process'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Place } from '../servers/place.ts'
import { type RedisServer, startRedis } from '../servers/redis.ts'
import { until } from '../servers/until.ts'
import { dial } from './dial.ts'
import { type Network, networkProblem, startNetwork } from './network.ts'

const problem = networkProblem()

describe('a network', () => {
  beforeEach(({ skip }) => skip(problem !== undefined, problem))

  test('has a server on a host that this process and other hosts reach', async () => {
    const { places } = network('a', 'b')
    const redis = await startAt(places.a)
    expect(redis.host).toBe(places.a.host)
    expect(await redis.command('PING')).toBe('PONG')
    expect(ask(places.b, redis, 'PING')).toBe('+PONG\r\n')
  })

  test('cut between two hosts keeps what both have to this process', async () => {
    const net = network('a', 'b')
    const { master, replica } = await replicated(net)
    net.cut('a', 'b')
    await master.command('SET', 'key', 'value')
    expect(await replica.command('GET', 'key')).toBeNull()
    expect(String(await replica.command('INFO', 'replication'))).toContain('link_status:up')
    expect(ask(net.places.b, master, 'PING', 300)).toBe('silence')
    net.heal('a', 'b')
    await until('the replica has it', async () => (await replica.command('GET', 'key')) === 'value')
    expect(ask(net.places.b, master, 'PING')).toBe('+PONG\r\n')
  })

  test('cut one way lets the other way pass, and cut both ways nothing', async () => {
    const net = network('a', 'b')
    const redis = await startAt(net.places.a)
    const connection = dial(redis)
    connection.send('PING\r\n')
    await until('there is an answer', () => connection.received === '+PONG\r\n')
    net.cutOneWay('a', 'here')
    connection.send('SET key value\r\n')
    await until('the server has it', () => {
      return ask(net.places.b, redis, 'GET key') === '$5\r\nvalue\r\n'
    })
    expect(connection.received).toBe('+PONG\r\n')
    expect(connection.state).toBe('open')
    net.heal('a', 'here')
    await until('the answer has come', () => connection.received === '+PONG\r\n+OK\r\n')
    net.cut('a', 'here')
    connection.send('DEL key\r\n')
    expect(ask(net.places.b, redis, 'GET key')).toBe('$5\r\nvalue\r\n')
    net.heal('a', 'here')
    await until('the answer has come', () => connection.received.endsWith(':1\r\n'))
    connection.close()
  })

  test('is gone when it was stopped, and so is what a killed run has left', async () => {
    const names = () => String(spawnSync('ip', ['netns', 'list']).stdout)
    const module = JSON.stringify(`${import.meta.dirname}/network.ts`)
    const script = `const { startNetwork } = await import(${module})
      startNetwork(['a']); console.log(process.pid); process.kill(process.pid, 'SIGKILL')`
    const args = ['--input-type=module', '--eval', script]
    const left = `tidegate-${Number(spawnSync(process.execPath, args).stdout)}.`
    expect(names()).toContain(left)
    const net = startNetwork(['a'])
    expect(names()).not.toContain(left)
    expect(names()).toContain(net.places.a.prefix.at(-1))
    net.stop()
    expect(names()).not.toContain(net.places.a.prefix.at(-1))
    expect(String(spawnSync('ip', ['link']).stdout)).not.toContain(`tg${process.pid}.`)
  })
})

function network<Name extends string>(...names: Name[]): Network<Name> {
  const net = startNetwork(names)
  onTestFinished(() => net.stop())
  return net
}

async function startAt(place: Place, args: readonly string[] = []): Promise<RedisServer> {
  const server = await startRedis({ place, args })
  onTestFinished(() => server.stop())
  return server
}

async function replicated({ places }: Network<'a' | 'b'>) {
  const master = await startAt(places.a)
  const replica = await startAt(places.b, ['--replicaof', `${master.host} ${master.port}`])
  await until('the replica is in step', async () =>
    String(await replica.command('INFO', 'replication')).includes('master_link_status:up'),
  )
  return { master, replica }
}

/** The reply on a new connection from that place, or `silence` if there is none by then. */
function ask(place: Place, { host, port }: RedisServer, request: string, waitMs = 20_000): string {
  const script = `const socket = require('node:net').connect(${port}, '${host}')
    socket.write('${request}\\r\\n')
    socket.on('data', tell).on('error', ({ code }) => tell(code))
    setTimeout(tell, ${waitMs}, 'silence')
    function tell(what) { process.stdout.write(what); process.exit() }`
  const [command = '', ...args] = [...place.prefix, process.execPath, '--eval', script]
  return String(spawnSync(command, args).stdout)
}
