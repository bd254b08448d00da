/** A version for a part of the nodes, each of which is a process. */

import { describe, expect, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import { useServer } from '../../support/use-server.ts'
import { commandLine } from './command-line.ts'
import { type FleetNode, newPrefix, policyOf, startNode } from './fleet-node.ts'

const why = ['--why', 'a test']

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a canary', () => {
  const etcd = useServer(() => startEtcd())

  test('is live on its nodes, is promoted, and is aborted', async () => {
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const cli = commandLine(options)
    const [eu, us] = await Promise.all([
      startNode('a', { ...options, local: { region: 'eu' } }),
      startNode('b', { ...options, local: { region: 'us' } }),
    ])
    await untilReported(cli, 2)
    await cli('publish', cli.file(policyOf(10)), ...why, '--wait', '1m')
    await untilLimits([eu, us], [10, 10])
    const forEu = ['--region', 'eu', '--for', '1h', '--wait', '1m', ...why]
    const begun = await cli('canary', cli.file(policyOf(20)), ...forEu, '--json')
    expect(begun.code, begun.text).toBe(0)
    expect(JSON.parse(begun.text)).toMatchObject({
      version: 2,
      where: { region: 'eu' },
      nodes: [{ node: 'a', version: 2, state: 'applied' }],
    })
    expect([await eu.limit(), await us.limit()]).toEqual([20, 10])
    expect((await cli('status')).text).toContain('canary: version 2 for region eu until')
    const promoted = await cli('promote', ...why)
    expect(promoted.text).toContain('version 2 is live on all nodes')
    await untilLimits([eu, us], [20, 20])
    const forB = ['--nodes', 'b', '--for', '1h', '--wait', '1m', ...why]
    expect((await cli('canary', cli.file(policyOf(30)), ...forB)).code).toBe(0)
    expect([await eu.limit(), await us.limit()]).toEqual([20, 30])
    expect(JSON.parse((await cli('abort', ...why, '--json')).text)).toEqual({ ended: 3 })
    await untilLimits([eu, us], [20, 20])
    const forAll = ['--share', '100', '--for', '1h', '--wait', '1m', ...why]
    await cli('canary', cli.file(policyOf(40)), ...forAll)
    expect([await eu.limit(), await us.limit()]).toEqual([40, 40])
    // A publication is for every node.
    const back = await cli('rollback', '1', ...why)
    expect(back.text).toContain('published version 5')
    await untilLimits([eu, us], [10, 10])
    expect((await cli('status', '--json')).text).not.toContain('canary')
  })

  test('ends by itself, and is refused without its nodes, its end or a valid text', async () => {
    const options = { endpoints: etcd.endpoints, prefix: newPrefix() }
    const cli = commandLine(options)
    const node = await startNode('a', options)
    await untilReported(cli, 1)
    await cli('publish', cli.file(policyOf(10)), ...why, '--wait', '1m')
    const file = cli.file(policyOf(20))
    const share = ['--share', '100', ...why]
    expect((await cli('canary', file, '--for', '1h', ...why)).text).toContain('--region, --nodes')
    expect((await cli('canary', file, ...share)).text).toContain('--for TIME is missing')
    expect((await cli('canary', file, ...share, '--nodes', 'a', '--for', '1h')).code).toBe(2)
    const wrong = await cli('canary', cli.file('limits: 1'), ...share, '--for', '1h')
    expect(wrong).toMatchObject({ code: 1, text: expect.stringContaining('is refused') })
    expect((await cli('promote', ...why)).text).toContain('there is no canary')
    expect((await cli('abort', ...why)).text).toContain('there is no canary')
    expect(await node.limit()).toBe(10)
    // Long enough that the node applies it on a machine that stalls.
    expect((await cli('canary', file, ...share, '--for', '6s', '--wait', '1m')).code).toBe(0)
    await untilLimits([node], [10])
    expect((await cli('promote', ...why)).text).toContain('the canary of version 2 has ended at')
    expect((await cli('abort', ...why)).text).toContain('there is no canary')
    expect((await cli('status', '--json')).text).not.toContain('canary')
  })
})

/** `--wait` waits for the nodes that have reported. */
async function untilReported(cli: ReturnType<typeof commandLine>, nodes: number): Promise<void> {
  await until(`${nodes} nodes have reported`, async () => {
    const { text } = await cli('status', '--json')
    return (JSON.parse(text) as { nodes: unknown[] }).nodes.length === nodes
  })
}

async function untilLimits(nodes: readonly FleetNode[], limits: readonly number[]): Promise<void> {
  await until(`the limits are ${limits.join(' and ')}`, async () => {
    const found = await Promise.all(nodes.map((node) => node.limit()))
    return found.join() === limits.join()
  })
}
