/**
 * A real Redis server for tests and measurements: on a free port of the loopback address, with an
 * empty data set that is never written to a disk.
 */

import { writeFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { makeCertificate } from './certificates.ts'
import { here, type Place } from './place.ts'
import { freePort } from './ports.ts'
import { type RedisFlavor, redisBinary } from './redis-binary.ts'
import { makeFolder, removeFolder, ServerProcess } from './server-process.ts'
import { until } from './until.ts'

export interface RedisServerOptions {
  readonly flavor?: RedisFlavor
  /** The password of the default user. */
  readonly password?: string
  readonly tls?: boolean
  /** Users as lines of the configuration file, such as `user app on >secret ~tg* +eval`. */
  readonly acl?: readonly string[]
  /** Further arguments, such as `['--maxmemory', '1mb']`. */
  readonly args?: readonly string[]
  /** Default: the loopback address. */
  readonly place?: Place
}

export interface RedisAddress {
  readonly host: string
  readonly port: number
  readonly password: string | undefined
  /** The certificate to trust, if the server uses TLS. */
  readonly tls: { readonly ca: string } | undefined
}

export interface RedisServer extends RedisAddress {
  readonly url: string
  /** The id of the running process; changes with `restart`. */
  readonly pid: number
  /** Sends one command as the default user on a connection of its own. */
  command(name: string, ...args: readonly (string | number)[]): Promise<unknown>
  /** Sends a signal, such as SIGKILL, SIGSTOP or SIGCONT, and does not wait for its effect. */
  kill(signal: NodeJS.Signals): void
  /** Ends the process if it runs, and starts an empty one on the same port. */
  restart(): Promise<void>
  /** Ends the process and removes its folder. */
  stop(): Promise<void>
}

/** Another process can take the port just before the server does, but not many times in a row. */
const STARTS_MAX = 10

export async function startRedis(options: RedisServerOptions = {}): Promise<RedisServer> {
  const folder = makeFolder()
  const tls = options.tls === true ? makeCertificate(folder) : undefined
  const listen = (port: number) =>
    tls === undefined
      ? [`port ${port}`]
      : [
          'port 0',
          `tls-port ${port}`,
          `tls-cert-file ${tls.certFile}`,
          `tls-key-file ${tls.keyFile}`,
          `tls-ca-cert-file ${tls.certFile}`,
          'tls-auth-clients no',
        ]
  const { password, acl = [], args = [], place = here } = options
  const secrets = password === undefined ? [] : [`requirepass ${JSON.stringify(password)}`]
  return startServer({
    binary: redisBinary(options.flavor),
    folder,
    config: (port) => [...quick, ...listen(port), ...secrets, ...acl],
    args,
    place,
    password,
    tls: tls && { ca: tls.ca },
  })
}

/** No persistence, and replicas are synced immediately instead of after 5 seconds. */
export const quick = [
  "save ''",
  'appendonly no',
  'repl-diskless-sync yes',
  'repl-diskless-sync-delay 0',
]

export interface ServerPlan {
  readonly binary: string
  readonly folder: string
  /** The lines of the configuration for a server on this port. */
  config(port: number): readonly string[]
  readonly args: readonly string[]
  readonly place?: Place
  readonly password?: string | undefined
  readonly tls?: { readonly ca: string } | undefined
}

/** Starts a process that answers PING: a server, a cluster node or a Sentinel. */
export async function startServer(plan: ServerPlan): Promise<RedisServer> {
  const started = await startOnFreePort(plan)
  const { address } = started
  let running = started.process
  return {
    ...address,
    url: urlOf(address),
    get pid() {
      return running.pid
    },
    command: (name, ...args) => command(address, name, ...args),
    kill: (signal) => running.kill(signal),
    async restart() {
      await running.end()
      running = run(plan, address.port)
      await untilReady(running, address)
    },
    async stop() {
      await running.end()
      removeFolder(plan.folder)
    },
  }
}

async function startOnFreePort(plan: ServerPlan) {
  for (let starts = 1; ; starts += 1) {
    const port = await freePort()
    const { place = here, password, tls } = plan
    const address = { host: place.host, port, password, tls }
    const process = run(plan, port)
    try {
      await untilReady(process, address)
      return { address, process }
    } catch (error) {
      await process.end()
      const isTaken = /address already in use/i.test(process.output)
      if (isTaken && starts < STARTS_MAX) continue
      removeFolder(plan.folder)
      throw error
    }
  }
}

function run(plan: ServerPlan, port: number): ServerProcess {
  const { place = here, folder } = plan
  const file = join(folder, 'server.conf')
  // In protected mode, a server without a password refuses clients of other hosts.
  const open = ['protected-mode no', `bind ${place.host}`, `dir ${folder}`]
  writeFileSync(file, `${[...plan.config(port), ...open].join('\n')}\n`)
  const [command = '', ...args] = [...place.prefix, plan.binary, file, ...plan.args]
  const started = new ServerProcess(command, args, folder)
  if (process.env.VITEST !== undefined) goFirst(started)
  return started
}

/** A busy machine must not look like a slow server. Not every user may decide that. */
function goFirst(server: ServerProcess): void {
  try {
    setPriority(server.pid, constants.priority.PRIORITY_HIGH)
  } catch {
    // Then it shares the processor with the tests.
  }
}

async function untilReady(process: ServerProcess, address: RedisAddress): Promise<void> {
  const state = await until('the server answers', async () => {
    if (process.hasEnded) return 'ended'
    return (await isOwn(process, address)) && 'ready'
  })
  if (state === 'ended') throw new Error(`the server ended at its start:\n${process.output}`)
}

/** Another run of the tests can have taken the port, and its server answers, too. */
async function isOwn({ pid }: ServerProcess, address: RedisAddress): Promise<boolean> {
  if ((await command(address, 'PING')) !== 'PONG') return false
  try {
    return String(await command(address, 'INFO', 'server')).includes(`process_id:${pid}\r\n`)
  } catch (error) {
    if (String(error).includes('NOPERM')) return true
    throw error
  }
}

/** Sends one command on a connection of its own. */
export async function command(
  { host, port, password, tls }: RedisAddress,
  name: string,
  ...args: readonly (string | number)[]
): Promise<unknown> {
  const client = new Redis({
    host,
    port,
    ...(password !== undefined && { password }),
    ...(tls && { tls }),
    protocol: 2,
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: () => null,
    maxRetriesPerRequest: 0,
  })
  // The promise reports a failure to connect; without a listener it would also be printed.
  client.on('error', () => {})
  try {
    await client.connect()
    return await client.call(name, ...args)
  } finally {
    client.disconnect()
  }
}

function urlOf({ host, port, password, tls }: RedisAddress): string {
  const secret = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  return `${tls === undefined ? 'redis' : 'rediss'}://${secret}${host}:${port}`
}
