/** The rate limit service with Envoy's files from etcd. */

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRls } from '../../../packages/server/src/app/rls-service.ts'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { rlsSettings } from '../../../packages/server/src/rls/settings.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { useServer } from '../../support/use-server.ts'
import { request, rlsClient } from '../rls/rls-client.ts'
import { newPrefix } from './fleet-node.ts'

const domain = (limit: number) => `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: ${limit} }
`

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('the rate limit service that follows etcd', () => {
  const etcd = useServer(() => startEtcd())

  test('applies published files, and refuses wrong ones', async () => {
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const environment = {
      TIDEGATE_ETCD_ENDPOINTS: etcd.endpoints.join(','),
      TIDEGATE_ETCD_PREFIX: newPrefix(),
      TIDEGATE_NODE: 'envoy-1',
    }
    let text = ''
    const write = (part: string) => {
      text += part
    }
    const policy = (...args: readonly string[]) =>
      runCli(['policy', ...args], { environment, stdout: write, stderr: write })
    const { settings } = rlsSettings(environment)
    const local = { host: '127.0.0.1', port: 0 }
    const listeners = { grpc: local, http: undefined, debug: undefined }
    const service = await startRls({ ...settings, ...listeners })
    onTestFinished(() => service.close())
    const files = join(folder, 'files')
    mkdirSync(files)
    writeFileSync(join(files, 'shop.yaml'), domain(1))
    const published = await policy('publish', files, '--why', 'a test', '--wait', '1m')
    expect(published, text).toBe(0)
    expect(text).toContain('published version 1: 1 of 1 nodes have applied it')
    const { grpc } = service.addresses
    const client = rlsClient('port' in grpc ? grpc.port : 0)
    onTestFinished(() => client.close())
    const ask = async () => (await client.ask(request('shop', ['user=ada']))).overall_code
    expect([await ask(), await ask()]).toEqual(['OK', 'OVER_LIMIT'])
    writeFileSync(join(files, 'shop.yaml'), domain(100))
    await policy('publish', files, '--why', 'more')
    await until('the change is live', async () => (await ask()) === 'OK')
    writeFileSync(join(files, 'shop.yaml'), 'domain: [')
    expect(await policy('publish', files, '--why', 'wrong')).toBe(1)
    expect(text).toContain('is refused')
  })
})
