/**
 * A real etcd for tests: one member or several, on free ports of the loopback address, in a folder
 * of its own, with TLS and users if they are asked for.
 */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Certificate, makeCertificate } from '../certificates.ts'
import { findProgram } from '../find-program.ts'
import { freePort, LOOPBACK } from '../ports.ts'
import { makeFolder, removeFolder, ServerProcess } from '../server-process.ts'
import { until } from '../until.ts'

/** An etcd elsewhere, such as a newer version; etcdctl is expected beside it or on the PATH. */
const VARIABLE = 'TIDEGATE_ETCD'

export interface EtcdOptions {
  /** The number of members. Default: 1. */
  readonly members?: number
  readonly tls?: boolean
  /** Clients need this certificate. */
  readonly clientCertificate?: Certificate
  /** The password of the user root; turns authentication on. */
  readonly rootPassword?: string
  /** Further arguments of every member, such as `['--auth-token-ttl', '2']`. */
  readonly args?: readonly string[]
}

export interface EtcdMember {
  readonly endpoint: string
  readonly port: number
  /** The id of the running process; changes with `restart`. */
  readonly pid: number
  kill(signal: NodeJS.Signals): void
  /** Ends the process if it runs, and starts it again with its data. */
  restart(): Promise<void>
}

export interface EtcdCluster {
  readonly endpoints: readonly string[]
  readonly members: readonly EtcdMember[]
  /** The certificate to trust, if members use TLS. */
  readonly tls: Certificate | undefined
  readonly folder: string
  /** Runs etcdctl as root and returns its output. */
  ctl(...args: readonly string[]): Promise<string>
  /** Ends all members and begins with a backup of `etcdctl snapshot save`. */
  restore(backup: string): Promise<void>
  stop(): Promise<void>
}

/** The path of etcd; undefined if it is not installed. */
export function etcdBinary(): string | undefined {
  return findProgram([process.env[VARIABLE] ?? 'etcd'])
}

/** For `describe.skipIf`, with a line that gives the reason. */
export function isEtcdMissing(): boolean {
  const isMissing = etcdBinary() === undefined
  if (isMissing) console.info('etcd was not found (apt-get install etcd-server): skipped')
  return isMissing
}

export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdCluster> {
  const folder = makeFolder()
  const cluster = new Cluster(options, folder)
  try {
    await cluster.start()
  } catch (error) {
    await cluster.stop()
    throw error
  }
  return cluster
}

class Cluster implements EtcdCluster {
  readonly folder: string
  readonly tls: Certificate | undefined
  readonly #options: EtcdOptions
  members: readonly Member[] = []

  constructor(options: EtcdOptions, folder: string) {
    this.#options = options
    this.folder = folder
    this.tls = options.tls === true ? makeCertificate(folder) : undefined
  }

  get endpoints(): readonly string[] {
    return this.members.map(({ endpoint }) => endpoint)
  }

  async start(): Promise<void> {
    const { members: count = 1, rootPassword } = this.#options
    const args = [...(this.#options.args ?? []), ...this.#clientArguments()]
    const scheme = this.tls === undefined ? 'http' : 'https'
    const places: MemberPlace[] = []
    for (let at = 0; at < count; at++) {
      const [port, peerPort] = [await freePort(), await freePort()]
      const name = `m${at}`
      places.push({ name, port, peerPort, scheme, folder: this.folder, tls: this.tls, args })
    }
    const initial = places.map(({ name, peerPort }) => `${name}=http://${LOOPBACK}:${peerPort}`)
    this.members = places.map((place) => new Member({ ...place, initial: initial.join(',') }))
    await this.#untilHealthy()
    if (rootPassword === undefined) return
    await this.#ctl(false, 'user', 'add', `root:${rootPassword}`)
    await this.#ctl(false, 'user', 'grant-role', 'root', 'root')
    await this.#ctl(false, 'auth', 'enable')
  }

  // Functions instead of methods, because `useServer` calls them on a proxy.
  readonly ctl = (...args: readonly string[]): Promise<string> =>
    this.#ctl(this.#options.rootPassword !== undefined, ...args)

  readonly restore = async (backup: string): Promise<void> => {
    await Promise.all(this.members.map((member) => member.end()))
    for (const member of this.members) {
      await run(['snapshot', 'restore', backup, ...member.restoreArguments()])
      member.start()
    }
    await this.#untilHealthy()
  }

  readonly stop = async (): Promise<void> => {
    await Promise.all(this.members.map((member) => member.end()))
    removeFolder(this.folder)
  }

  /** A member calls itself with its own certificate, so that one is trusted as well. */
  #clientArguments(): readonly string[] {
    const { clientCertificate } = this.#options
    if (clientCertificate === undefined) return []
    const file = join(this.folder, 'clients.crt')
    writeFileSync(file, `${this.tls?.ca}${clientCertificate.ca}`)
    return ['--client-cert-auth', '--trusted-ca-file', file]
  }

  async #ctl(asRoot: boolean, ...args: readonly string[]): Promise<string> {
    const { clientCertificate: client } = this.#options
    const trust = [
      ...(this.tls === undefined ? [] : ['--cacert', this.tls.certFile]),
      ...(client === undefined ? [] : ['--cert', client.certFile, '--key', client.keyFile]),
    ]
    const user = asRoot ? ['--user', `root:${this.#options.rootPassword}`] : []
    return run([`--endpoints=${this.endpoints.join(',')}`, ...trust, ...user, ...args])
  }

  async #untilHealthy(): Promise<void> {
    await until('etcd has a leader', async () => {
      const ended = this.members.find((member) => member.hasEnded)
      if (ended !== undefined) throw new Error(`a member of etcd ended:\n${ended.output}`)
      await this.#ctl(false, 'get', 'any', '--command-timeout=2s').catch((error: Error) => {
        // With authentication on, a refusal shows that there is a leader.
        if (!/user name is empty/.test(error.message)) throw error
      })
      return true
    })
  }
}

interface MemberPlace {
  readonly name: string
  readonly port: number
  readonly peerPort: number
  readonly scheme: string
  readonly folder: string
  readonly tls: Certificate | undefined
  readonly args: readonly string[]
}

class Member implements EtcdMember {
  readonly port: number
  readonly endpoint: string
  readonly #place: MemberPlace & { readonly initial: string }
  #process: ServerProcess
  #restored = 0

  constructor(place: MemberPlace & { readonly initial: string }) {
    this.#place = place
    this.port = place.port
    this.endpoint = `${place.scheme}://${LOOPBACK}:${place.port}`
    this.#process = this.#spawn()
  }

  get pid(): number {
    return this.#process.pid
  }

  get hasEnded(): boolean {
    return this.#process.hasEnded
  }

  get output(): string {
    return this.#process.output
  }

  kill(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }

  end(): Promise<void> {
    return this.#process.end()
  }

  start(): void {
    this.#process = this.#spawn()
  }

  async restart(): Promise<void> {
    await this.end()
    this.start()
  }

  /** The data of a restored member go to another folder. */
  restoreArguments(): readonly string[] {
    this.#restored += 1
    const { name, initial } = this.#place
    const peers = ['--initial-cluster', initial, '--initial-advertise-peer-urls', this.#peerUrl]
    return ['--name', name, '--data-dir', this.#dataFolder, ...peers]
  }

  get #dataFolder(): string {
    return join(this.#place.folder, `${this.#place.name}-${this.#restored}`)
  }

  get #peerUrl(): string {
    return `http://${LOOPBACK}:${this.#place.peerPort}`
  }

  #spawn(): ServerProcess {
    const { name, folder, initial, tls, args } = this.#place
    const binary = etcdBinary()
    if (binary === undefined) throw new Error('etcd was not found: apt-get install etcd-server')
    const secure = tls ? ['--cert-file', tls.certFile, '--key-file', tls.keyFile] : []
    const urls = [
      ...['--listen-client-urls', this.endpoint, '--advertise-client-urls', this.endpoint],
      ...['--listen-peer-urls', this.#peerUrl, '--initial-advertise-peer-urls', this.#peerUrl],
    ]
    const all = ['--name', name, '--data-dir', this.#dataFolder, '--initial-cluster', initial]
    const quiet = ['--log-level', 'error', '--logger', 'zap']
    return new ServerProcess(binary, [...all, ...urls, ...secure, ...quiet, ...args], folder)
  }
}

/** Kept short: a test that waits for a member repeats the call. */
async function run(args: readonly string[]): Promise<string> {
  const binary = findProgram(['etcdctl'])
  if (binary === undefined) throw new Error('etcdctl was not found: apt-get install etcd-client')
  const env = { ...process.env, ETCDCTL_API: '3' }
  const { stdout } = await promisify(execFile)(binary, [...args], { env, timeout: 20_000 })
  return stdout
}
