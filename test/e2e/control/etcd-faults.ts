/** Faults of etcd, each with its end. */

import { join } from 'node:path'
import { expect } from 'vitest'
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

/** The user of the node, with a role for everything. */
export const NODE_USER = 'tidegate'
const withUsers = { members: 3, rootPassword: ROOT_PASSWORD }

/** Each write of a megabyte, so that a small quota is used up after a few. */
const FILLING = Buffer.alloc(1024 ** 2, 'x').toString('base64')
const FILLINGS_MAX = 100

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
      await etcd.ctl('compact', String(await revisionOf(etcd)))
      return async () => {
        await Promise.all(proxies.map((proxy) => proxy.clear()))
      }
    },
  },
  {
    name: 'the token has expired',
    etcd: { ...withUsers, args: ['--auth-token-ttl', '1'] },
    async begin({ proxies }) {
      // A token expires when it is not used for its time, as while the node is cut off.
      await Promise.all(proxies.map((proxy) => proxy.set({ hang: true })))
      return async () => {
        await Promise.all(proxies.map((proxy) => proxy.clear()))
      }
    },
  },
  {
    name: 'the users are changed, which ends every token',
    etcd: withUsers,
    async begin({ etcd }) {
      await etcd.ctl('user', 'add', 'other:secret')
      return async () => undefined
    },
  },
  {
    name: 'the user of the node is deleted, and made again',
    etcd: withUsers,
    async begin({ etcd }) {
      await etcd.ctl('user', 'delete', NODE_USER)
      return () => addNodeUser(etcd)
    },
  },
  {
    name: 'the disk of etcd is full',
    etcd: { members: 1, args: ['--quota-backend-bytes', String(16 * 1024 ** 2)] },
    async begin({ etcd, publish }) {
      await fill(etcd)
      await expect(publish(1_005)).rejects.toMatchObject({ code: 'full' })
      return async () => {
        await etcd.ctl('compact', String(await revisionOf(etcd)))
        await etcd.ctl('defrag')
        await etcd.ctl('alarm', 'disarm')
      }
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

/** Makes the user of the node. */
export async function addNodeUser(etcd: EtcdCluster): Promise<void> {
  await etcd.ctl('user', 'add', `${NODE_USER}:${ROOT_PASSWORD}`)
  await etcd.ctl('user', 'grant-role', NODE_USER, 'root')
}

async function revisionOf(etcd: EtcdCluster): Promise<number> {
  const text = await etcd.ctl('get', 'any', '-w', 'json')
  return (JSON.parse(text) as { header: { revision: number } }).header.revision
}

/** Writes until etcd refuses to, which is its alarm NOSPACE. */
async function fill({ endpoints }: EtcdCluster): Promise<void> {
  const body = JSON.stringify({ key: Buffer.from('filling').toString('base64'), value: FILLING })
  for (let count = 0; count < FILLINGS_MAX; count++) {
    const response = await fetch(`${endpoints[0]}/v3/kv/put`, { method: 'POST', body })
    const text = await response.text()
    if (text.includes('space exceeded')) return
    if (response.status !== 200) throw new Error(text)
  }
  throw new Error('etcd has no quota')
}
