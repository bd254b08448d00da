/** A node of a fleet as a process of its own: `tidegate serve` with the decision API. */

import { randomBytes } from 'node:crypto'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { Versions } from '../../../packages/server/src/control/versions/versions.ts'
import { freePort } from '../../support/servers/ports.ts'
import { type PolicyProcess, startPolicyProcess } from '../cli/policy-process.ts'

const TOKEN = 'a-token-for-tests'

export interface FleetOptions {
  readonly endpoints: readonly string[]
  readonly prefix: string
  /** Further fields of `control.etcd`. */
  readonly etcd?: object
  /** Further fields of `control`. */
  readonly control?: object
  readonly environment?: Readonly<Record<string, string>>
  /** Further sections of the local file. */
  readonly local?: object
  /** Arguments of the process. With them, the local file does not name the etcd. */
  readonly args?: readonly string[]
}

export interface FleetNode {
  readonly process: PolicyProcess
  /** Makes a decision, and returns the size of the limit that it was made by. */
  limit(): Promise<number>
  /** Makes a decision by these limits, and returns the size of each. */
  sizes(names: readonly string[]): Promise<readonly number[]>
}

export function newPrefix(): string {
  return `/tidegate/${randomBytes(6).toString('hex')}/`
}

/** A policy with one limit of this size, as it is published. */
export function policyOf(limit: number): string {
  return `limits:\n  - { name: shared, key: everyone, limit: ${limit}, per: 1h }\n`
}

/** The local file of a node; its own limit has the size 1. */
export function localPolicy(options: FleetOptions): object {
  const { endpoints, prefix, etcd, control, args, local } = options
  return {
    ...local,
    control: { ...(args === undefined && { etcd: { endpoints, prefix, ...etcd } }), ...control },
    limits: [{ name: 'shared', key: 'everyone', limit: 1, per: '1h' }],
  }
}

/** Stopped at the end of the test. */
export async function startNode(name: string, options: FleetOptions): Promise<FleetNode> {
  const port = await freePort()
  const control = { node: name, ...options.control }
  const process = await startPolicyProcess({
    command: 'serve',
    policy: {
      ...localPolicy({ ...options, control }),
      decisionApi: { listen: { host: '127.0.0.1', port }, token: { env: 'TIDEGATE_TEST_TOKEN' } },
    },
    ready: 'counters:',
    environment: { TIDEGATE_TEST_TOKEN: TOKEN, ...options.environment },
    args: options.args ?? [],
  })
  const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
  const sizes = async (names: readonly string[]) => {
    const body = JSON.stringify({ limits: names.map((limit) => ({ name: limit })), peek: true })
    const request = { method: 'POST', headers, body }
    const response = await fetch(`http://127.0.0.1:${port}/v1/check`, request)
    const { limits } = (await response.json()) as { limits: readonly { limit: number }[] }
    return limits.map(({ limit }) => limit)
  }
  return { process, sizes, limit: async () => (await sizes(['shared']))[0] ?? 0 }
}

export function openVersions({ endpoints, prefix }: FleetOptions) {
  const store = new EtcdKeyValue({ endpoints, prefix })
  return { store, versions: new Versions(store), close: () => store.close() }
}

export const change = { by: 'ada', why: 'a test', program: 'test' }
