/** A fleet that follows etcd, and the commands that publish for it. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type NodeReport,
  readNodes,
} from '../../../packages/server/src/control/nodes/node-report.ts'
import { readRemotePolicy } from '../../../packages/server/src/policy/read-policy.ts'
import { remoteSections } from '../../../packages/server/src/policy/remote-policy.ts'
import { repositoryRoot } from '../../house/source-file.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import { useServer } from '../../support/use-server.ts'
import { commandLine } from './command-line.ts'
import {
  change,
  type FleetOptions,
  newPrefix,
  openVersions,
  policyOf,
  startNode,
} from './fleet-node.ts'

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a fleet that follows etcd', () => {
  const etcd = useServer(() => startEtcd())
  const fleet = (): FleetOptions => ({ endpoints: etcd.endpoints, prefix: newPrefix() })

  test('applies what is published, and reports it', async () => {
    const options = fleet()
    const cli = commandLine(options)
    const nodes = [await startNode('a', options), await startNode('b', options)]
    expect(await Promise.all(nodes.map((node) => node.limit()))).toEqual([1, 1])
    await until('both have reported', async () => {
      const { text } = await cli('status', '--json')
      return (JSON.parse(text) as { nodes: unknown[] }).nodes.length === 2
    })
    const wait = ['--why', 'more room', '--wait', '1m', '--json']
    const published = await cli('publish', cli.file(policyOf(70)), ...wait)
    expect(published.code, published.text).toBe(0)
    expect(JSON.parse(published.text)).toMatchObject({
      version: 1,
      why: 'more room',
      nodes: [
        { node: 'a', version: 1, state: 'applied' },
        { node: 'b', version: 1, state: 'applied' },
      ],
    })
    expect(await Promise.all(nodes.map((node) => node.limit()))).toEqual([70, 70])
    const second = await cli('publish', cli.file(policyOf(80)), '--why', 'x', '--wait', '1m')
    expect(second.text).toContain('published version 2: 2 of 2 nodes have applied it')
    const back = await cli('rollback', '1', '--why', 'too much', '--wait', '1m')
    expect(back.text).toContain('published version 3')
    expect(await Promise.all(nodes.map((node) => node.limit()))).toEqual([70, 70])
    expect((await cli('history')).text).toMatch(/^\* {4}3 .*too much \(version 1 again\)\n/)
    expect((await cli('diff', '2')).text).toContain('limit: 70')
  })

  test('refuses to publish what a node would refuse, and what lost a race', async () => {
    const cli = commandLine(fleet())
    const wrong = await cli('publish', cli.file('limits: [{ name: x }]\n'), '--why', 'x')
    expect(wrong).toMatchObject({ code: 1, text: expect.stringContaining('is refused') })
    const store = await cli('publish', cli.file(`store: {}\n${policyOf(1)}`), '--why', 'x')
    expect(store.text).toContain('store: cannot be published, it stays in the local file')
    const first = await cli('publish', cli.file(policyOf(1)), '--why', 'x', '--parent', '0')
    expect(first.code).toBe(0)
    const again = ['--why', 'x', '--parent', '0']
    const lost = await cli('publish', cli.file(policyOf(2)), ...again)
    expect(lost).toMatchObject({
      code: 1,
      text: expect.stringContaining('version 1 was published'),
    })
    expect(lost.text).toContain('limit: 2')
    expect((await cli('publish', cli.file(policyOf(2)))).code).toBe(2)
  })

  test('states that nothing was published if etcd is away', async () => {
    const cli = commandLine({ endpoints: ['http://127.0.0.1:1'], prefix: newPrefix() })
    expect(await cli('publish', cli.file(policyOf(1)), '--why', 'x')).toMatchObject({
      code: 1,
      text: expect.stringMatching(/ECONNREFUSED.*; nothing was published\n$/),
    })
  })

  test('refuses hostile documents in words, and goes on', async () => {
    const options = fleet()
    const { versions, store, close } = openVersions(options)
    onTestFinished(close)
    await versions.publish(policyOf(5), change)
    const node = await startNode('a', options)
    await until('it has the first version', async () => (await node.limit()) === 5)
    for (const [text, reason] of hostile) {
      const { version } = await versions.publish(text, change)
      const report = await until(`version ${version} is refused`, async () => {
        const [found] = await readNodes(store)
        return isAbout(found, reason) && found
      })
      expect(report).toMatchObject({ state: 'refused', version: 1 })
      expect(await node.limit()).toBe(5)
    }
    await versions.publish(policyOf(6), change)
    await until('a valid one is live', async () => (await node.limit()) === 6)
  })
})

test('the guide has policies that can be used', () => {
  const guide = readFileSync(join(repositoryRoot, 'docs/control-plane.md'), 'utf8')
  const [local = '', published = ''] = Array.from(
    guide.matchAll(/```yaml\n(.*?)```/gs),
    ([, text = '']) => text,
  )
  const read = readRemotePolicy(
    { text: local, file: 'tidegate.yaml' },
    { text: published, file: 'limits.yaml' },
  )
  expect(read).toMatchObject({ ok: true, document: { limits: [{ name: 'per-client' }] } })
  for (const section of remoteSections) expect(guide).toContain(`\`${section}\``)
})

/** Documents that reach a node without the check of `tidegate policy publish`. */
const hostile: readonly (readonly [string, string])[] = [
  [`a: &a [1]\nlimits: *a\n`, 'anchors'],
  [`limits: ${'['.repeat(5_000)}${']'.repeat(5_000)}\n`, 'deep'],
  [
    `limits:\n${'  - { name: x, key: everyone, limit: 1, per: 1s }\n'.repeat(5_000)}`,
    'too many parts',
  ],
  ['limits: [{ name: "a\\u001b[2Jb", key: everyone, limit: 1, per: 1s }]\n', 'name'],
  [withLookUp('file: /etc/passwd'), 'control.allow.files'],
  [withLookUp("url: 'http://10.0.0.1/{key}'"), 'control.allow.urls'],
  ['admin: { listen: { host: 0.0.0.0, port: 1 } }\nlimits: []\n', 'stays in the local file'],
  ['\u0000', 'control characters'],
  ['', 'limits'],
]

function withLookUp(place: string): string {
  return `tiers: { names: [a], default: a, lookup: { ${place}, by: user } }\nlimits: []\n`
}

function isAbout(report: NodeReport | undefined, reason: string): boolean {
  return report?.problems.some((problem) => problem.includes(reason)) ?? false
}
