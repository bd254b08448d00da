/** Clients that change one fleet at the same time: no change is lost, none is applied twice. */

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { type AdminNode, startAdminNode } from './admin-nodes.ts'
import { type FleetOptions, newPrefix, openVersions } from './fleet-node.ts'

const CLIENTS = 4
const CHANGES_OF_EACH = 250
const SLOW_MS = 600_000

interface AuditLine {
  readonly action: string
  readonly result: string
  readonly reason?: string
  readonly versionTo?: number
}

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('a fleet with clients that race', () => {
  test('has 1,000 changes of 4 processes once each', { timeout: SLOW_MS }, async () => {
    const options = await fleet()
    const program = join(repositoryRoot, 'test/e2e/control/changer.ts')
    const { endpoints, prefix } = options
    const outputs = await Promise.all(
      Array.from({ length: CLIENTS }, (_, at) => {
        const args = [program, endpoints.join(','), prefix, String(CHANGES_OF_EACH), `c${at}`]
        return promisify(execFile)(process.execPath, args)
      }),
    )
    console.info(`lost races, by client: ${outputs.map(({ stdout }) => stdout.trim()).join(' ')}`)
    const half = (CLIENTS * CHANGES_OF_EACH) / 2
    const node = await startAdminNode('a', options)
    await expectComplete(node, options, { publications: half, overrides: half })
  })
})

async function fleet(): Promise<FleetOptions> {
  const etcd = await startEtcd()
  onTestFinished(() => etcd.stop())
  return { endpoints: etcd.endpoints, prefix: newPrefix() }
}

async function expectComplete(
  { call }: AdminNode,
  options: FleetOptions,
  { publications, overrides }: { readonly publications: number; readonly overrides: number },
): Promise<void> {
  const { versions, store, close } = openVersions(options)
  onTestFinished(close)
  const history = await versions.history(publications + 1)
  expect(history.map(({ version }) => version)).toEqual(countdown(publications))
  expect(history.every(({ version, parent }) => parent === version - 1)).toBe(true)
  expect(new Set(history.map(({ why }) => why)).size).toBe(publications)
  expect((await store.range('live/overrides/')).entries).toHaveLength(overrides)
  const lines = (await call('GET', '/v1/audit/export')).text.trim().split('\n')
  const records = lines.map((line) => JSON.parse(line) as AuditLine)
  const done = records.filter(({ result }) => result === 'done')
  expect(done).toHaveLength(publications + overrides)
  const reasons = new Set(done.map(({ action, reason }) => `${action} ${reason}`))
  expect(reasons.size).toBe(publications + overrides)
  expect(done.flatMap(({ versionTo }) => versionTo ?? [])).toEqual(countdown(publications))
  const verdict = (await call('GET', '/v1/audit/verify')).body
  expect(verdict).toEqual({ ok: true, records: lines.length, first: 1, last: lines.length })
}

function countdown(from: number): number[] {
  return Array.from({ length: from }, (_, at) => from - at)
}
