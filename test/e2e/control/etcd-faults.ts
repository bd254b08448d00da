/** Faults of etcd, each with its end. */

import { join } from 'node:path'
import type { FaultProxy } from '../../support/faults/fault-proxy.ts'
import type { EtcdCluster, EtcdOptions } from '../../support/servers/etcd/etcd.ts'

export interface FaultPlace {
  readonly etcd: EtcdCluster
  /** Between the node and the members, in their order. */
  readonly proxies: readonly FaultProxy[]
  /** Publishes a policy with a limit of this size. */
  publish(limit: number): Promise<void>
}

export interface EtcdFault {
  readonly name: string
  readonly etcd: EtcdOptions
  /** Resolves when the fault has begun; the result ends it. */
  begin(place: FaultPlace): Promise<() => Promise<void>>
}

const three = { members: 3 }
export const ROOT_PASSWORD = 'secret'

export const etcdFaults: readonly EtcdFault[] = [
  {
    name: 'one of three members is killed',
    etcd: three,
    async begin({ etcd: { members } }) {
      members[0]?.kill('SIGKILL')
      return async () => members[0]?.restart()
    },
  },
  {
    name: 'all members are killed',
    etcd: three,
    async begin({ etcd: { members } }) {
      for (const member of members) member.kill('SIGKILL')
      return async () => void (await Promise.all(members.map((member) => member.restart())))
    },
  },
  {
    name: 'all members are stopped',
    etcd: three,
    async begin({ etcd: { members } }) {
      for (const member of members) member.kill('SIGSTOP')
      return async () => {
        for (const member of members) member.kill('SIGCONT')
      }
    },
  },
  {
    name: 'the node is cut off without notice',
    etcd: three,
    async begin({ proxies }) {
      await Promise.all(proxies.map((proxy) => proxy.set({ hang: true })))
      return async () => {
        await Promise.all(proxies.map((proxy) => proxy.clear()))
      }
    },
  },
  {
    name: 'the leader moves',
    etcd: three,
    async begin({ etcd }) {
      const lines = (await etcd.ctl('endpoint', 'status')).trim().split('\n')
      // Address, id, version, size, and whether it leads.
      const follower = lines.map((line) => line.split(', ')).find((parts) => parts[4] === 'false')
      await etcd.ctl('move-leader', follower?.[1] ?? '')
      return async () => undefined
    },
  },
  {
    name: 'the history is compacted while the node is cut off',
    etcd: three,
    async begin({ etcd, proxies, publish }) {
      await Promise.all(proxies.map((proxy) => proxy.set({ refuse: true })))
      await Promise.all(proxies.map((proxy) => proxy.cut()))
      await publish(1_001)
      await publish(1_002)
      const status = JSON.parse(await etcd.ctl('get', 'any', '-w', 'json')) as {
        header: { revision: number }
      }
      await etcd.ctl('compact', String(status.header.revision))
      return async () => {
        await Promise.all(proxies.map((proxy) => proxy.clear()))
      }
    },
  },
  {
    name: 'the token has expired and the users are changed',
    etcd: { members: 3, rootPassword: ROOT_PASSWORD, args: ['--auth-token-ttl', '1'] },
    async begin({ etcd }) {
      await etcd.ctl('user', 'add', 'other:secret')
      return async () => undefined
    },
  },
  {
    name: 'etcd is restored from a backup',
    etcd: { members: 1 },
    async begin({ etcd, publish }) {
      const backup = join(etcd.folder, 'backup.db')
      await etcd.ctl('snapshot', 'save', backup)
      await publish(1_003)
      await publish(1_004)
      return () => etcd.restore(backup)
    },
  },
]
