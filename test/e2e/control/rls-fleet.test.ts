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

  test('publishes through its admin API, and shares overrides with other nodes', async () => {
    const token = 'the-first-token-of-the-tests-0123456789'
    const prefix = newPrefix()
    const start = async (node: string) => {
      const { settings } = rlsSettings({
        TIDEGATE_ETCD_ENDPOINTS: etcd.endpoints.join(','),
        TIDEGATE_ETCD_PREFIX: prefix,
        TIDEGATE_NODE: node,
        TIDEGATE_ADMIN_PORT: '0',
        TIDEGATE_ADMIN_TOKEN: token,
      })
      const local = { host: '127.0.0.1', port: 0 }
      const service = await startRls({
        ...settings,
        grpc: local,
        http: undefined,
        debug: undefined,
      })
      onTestFinished(() => service.close())
      const { grpc, admin } = service.addresses
      const client = rlsClient('port' in grpc ? grpc.port : 0)
      onTestFinished(() => client.close())
      const call = async (method: string, path: string, body: object, version = '0') => {
        const response = await fetch(`http://127.0.0.1:${admin?.port}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${token}`,
            'content-type': 'application/json',
            'if-match': `"${version}"`,
          },
          body: JSON.stringify({ why: 'a test', ...body }),
        })
        return { status: response.status, text: await response.text() }
      }
      const ask = async (user: string) =>
        (await client.ask(request('shop', [`user=${user}`]))).overall_code
      return { call, ask }
    }
    const [one, other] = [await start('one'), await start('other')]
    const bundle = (text: string) => ({ text: `--- # shop.yaml\n${text}` })
    const wrong = await one.call('PUT', '/v1/policy', bundle('domain: ['))
    expect(wrong.status, wrong.text).toBe(422)
    const published = await one.call('PUT', '/v1/policy', bundle(domain(0)))
    expect(published.status, published.text).toBe(200)
    // The node that has published follows etcd too, and may be the later one.
    for (const node of [one, other]) {
      await until('both nodes have it', async () => {
        return (await node.ask('ada').catch(() => 'none')) === 'OVER_LIMIT'
      })
    }
    const set = { limit: 'shop', key: ['user=ada'], set: { limit: 1_000 }, for: '1h' }
    const changed = await one.call('PUT', '/v1/overrides', set)
    expect(changed.status, changed.text).toBe(200)
    expect(changed.text).toContain('all nodes')
    await until('the other node has the override', async () => (await other.ask('ada')) === 'OK')
    expect(await other.ask('eve')).toBe('OVER_LIMIT')
  })
})
