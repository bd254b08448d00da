/**
 * A network of hosts for partitions: one network namespace for each host, all on one switch, and
 * this process as a further host, `here`. Any two hosts can be cut from each other, in both
 * directions or in one, while both still reach all others.
 *
 * A cut is silent, as when a switch or a firewall fails: packets go to an unused hardware address.
 * Setting an interface down would notify its own host immediately, and remove its routes.
 *
 * It needs Linux, root and `ip`. Names contain the process id, so that runs do not collide and the
 * next run can remove the remains of a killed one.
 */

import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import type { Place } from '../servers/place.ts'

export interface Network<Name extends string = string> {
  /** The places of processes on each host. */
  readonly places: Readonly<Record<Name | 'here', Place>>
  /** Drops all packets between the two, silently. */
  cut(one: Name | 'here', other: Name | 'here'): void
  /** Drops all packets in this direction. */
  cutOneWay(from: Name | 'here', to: Name | 'here'): void
  /** Restores the connection between the two. */
  heal(one: Name | 'here', other: Name | 'here'): void
  /** Removes the network. The caller must end the processes on its hosts first. */
  stop(): void
}

interface Host {
  readonly address: string
  /** Undefined for this process. */
  readonly namespace: string | undefined
  readonly device: string
}

const HOSTS_MAX = 200

/** 198.18.0.0/15 is reserved for network tests: 512 networks of one byte each. */
const NETWORKS_MAX = 512

/** A locally administered address that no device has. */
const NOBODY = '02:00:00:00:00:00'

export function startNetwork<Name extends string>(names: readonly Name[]): Network<Name> {
  if (names.length > HOSTS_MAX) throw new Error(`a network has at most ${HOSTS_MAX} hosts`)
  removeLeftOver()
  const id = `${process.pid}.${randomInt(0x1_0000).toString(16)}`
  const subnet = freeSubnet()
  const outside = { address: `${subnet}.254`, namespace: undefined, device: `tg${id}` }
  const hosts = new Map<string, Host>([['here', outside]])
  for (const [index, name] of names.entries()) {
    const namespace = `tidegate-${id}-${name}`
    hosts.set(name, { address: `${subnet}.${index + 1}`, namespace, device: 'eth0' })
  }
  const remove = () => {
    process.off('exit', remove)
    removeAll(id)
  }
  process.once('exit', remove)
  try {
    wire(`tidegate-${id}-switch`, [...hosts.values()])
  } catch (error) {
    remove()
    throw error
  }
  const places = Array.from(hosts, ([name, host]) => [name, placeOf(host)])
  return { places: Object.fromEntries(places), ...cuts(hosts), stop: remove }
}

let problem: string | undefined | null = null

/** The reason why this machine does not support it, in one line. */
export function networkProblem(): string | undefined {
  if (problem === null) problem = findProblem()
  return problem
}

function findProblem(): string | undefined {
  if (process.platform !== 'linux') return 'network namespaces are only to be had on Linux'
  if (process.getuid?.() !== 0) return 'network namespaces need root'
  try {
    startNetwork(['probe']).stop()
    return undefined
  } catch (error) {
    return `network namespaces cannot be had: ${String(error).split('\n')[0]}`
  }
}

function wire(switchName: string, hosts: readonly Host[]): void {
  ip(['netns', 'add', switchName])
  ip(['-n', switchName, 'link', 'add', 'switch', 'type', 'bridge'])
  ip(['-n', switchName, 'link', 'set', 'switch', 'up'])
  for (const [index, { address, namespace, device }] of hosts.entries()) {
    const port = `port${index}`
    const inside = namespace === undefined ? [] : ['netns', namespace]
    if (namespace !== undefined) ip(['netns', 'add', namespace])
    const peer = ['peer', 'name', port, 'netns', switchName]
    ip(['link', 'add', device, ...inside, 'type', 'veth', ...peer])
    ip(['-n', switchName, 'link', 'set', port, 'master', 'switch', 'up'])
    ip([...within(namespace), 'address', 'add', `${address}/24`, 'dev', device])
    ip([...within(namespace), 'link', 'set', device, 'up'])
    if (namespace !== undefined) ip([...within(namespace), 'link', 'set', 'lo', 'up'])
  }
}

function placeOf({ address, namespace }: Host): Place {
  const prefix = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace]
  return { host: address, prefix }
}

function cuts(hosts: ReadonlyMap<string, Host>) {
  const silent = new Set<string>()
  const neighbour = (verb: 'replace' | 'delete', from: string, to: string, how: string[]) => {
    const [source, target] = [hosts.get(from), hosts.get(to)]
    if (source === undefined || target === undefined) throw new Error(`no hosts ${from}, ${to}`)
    const entry = [target.address, 'dev', source.device, ...how]
    ip([...within(source.namespace), 'neighbour', verb, ...entry])
  }
  const cutOneWay = (from: string, to: string) => {
    neighbour('replace', from, to, ['lladdr', NOBODY, 'nud', 'permanent'])
    silent.add(`${from} ${to}`)
  }
  const healOneWay = (from: string, to: string) => {
    if (silent.delete(`${from} ${to}`)) neighbour('delete', from, to, [])
  }
  return {
    cutOneWay,
    cut(one: string, other: string) {
      cutOneWay(one, other)
      cutOneWay(other, one)
    },
    heal(one: string, other: string) {
      healOneWay(one, other)
      healOneWay(other, one)
    },
  }
}

function within(namespace: string | undefined): string[] {
  return namespace === undefined ? [] : ['-n', namespace]
}

/** A subnet that no other run uses, unless both check at the same moment. */
function freeSubnet(): string {
  const taken = ip(['-4', '-oneline', 'address', 'show'])
  const first = randomInt(NETWORKS_MAX)
  for (let step = 0; step < NETWORKS_MAX; step += 1) {
    const number = (first + step) % NETWORKS_MAX
    const subnet = `198.${18 + Math.floor(number / 256)}.${number % 256}`
    if (!taken.includes(` ${subnet}.`)) return subnet
  }
  throw new Error('all networks for tests are taken')
}

/** Removes the remains of runs whose process has ended. */
function removeLeftOver(): void {
  const names = [...existing().namespaces, ...existing().devices]
  const ids = names.flatMap((name) => /^(?:tidegate-|tg)(\d+\.[0-9a-f]+)/.exec(name)?.[1] ?? [])
  for (const id of new Set(ids)) if (!isRunning(Number.parseInt(id, 10))) removeAll(id)
}

function removeAll(id: string): void {
  const { namespaces, devices } = existing()
  if (devices.includes(`tg${id}`)) ip(['link', 'delete', `tg${id}`])
  for (const name of namespaces) {
    if (name.startsWith(`tidegate-${id}-`)) ip(['netns', 'delete', name])
  }
}

function existing(): { namespaces: string[]; devices: string[] } {
  const namespaces = ip(['netns', 'list']).split('\n')
  const devices = ip(['-oneline', 'link', 'show', 'type', 'veth']).split('\n')
  return {
    namespaces: namespaces.map((line) => line.split(' ')[0] ?? ''),
    devices: devices.map((line) => /^\d+: ([^@:]+)/.exec(line)?.[1] ?? ''),
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function ip(args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' })
  if (status === 0) return stdout
  const reason = error === undefined ? stderr.trim() : `${error.message} (apt-get install iproute2)`
  throw new Error(`ip ${args.join(' ')}: ${reason}`)
}
