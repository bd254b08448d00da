/** The source of a policy by the command line. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { Versions } from '../../../packages/server/src/control/versions/versions.ts'
import { programFile } from '../../support/program.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { change, newPrefix, policyOf, startNode } from './fleet-node.ts'

const PASSWORD = 'secret'
const SLOW_MS = 60_000

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('tidegate serve --config-source', () => {
  test('etcd follows what the flags name, with TLS and a user', async () => {
    const etcd = await startEtcd({ tls: true, rootPassword: PASSWORD })
    onTestFinished(() => etcd.stop())
    const { endpoints, tls } = etcd
    const prefix = newPrefix()
    const access = { user: 'root', password: PASSWORD, tls: { ca: tls?.ca ?? '' } }
    const store = new EtcdKeyValue({ endpoints, prefix, ...access })
    onTestFinished(() => store.close())
    await new Versions(store).publish(policyOf(7), change)
    const passwordFile = join(etcd.folder, 'password')
    writeFileSync(passwordFile, `${PASSWORD}\n`)
    const args = [
      ...['--config-source', 'etcd', '--etcd-endpoints', endpoints.join(',')],
      ...['--etcd-prefix', prefix, '--etcd-ca', tls?.certFile ?? ''],
      ...['--etcd-user', 'root', '--etcd-password-file', passwordFile],
    ]
    const node = await startNode('a', { endpoints: [], prefix, args })
    await until('it has the published limit', async () => (await node.limit()) === 7)
  })

  test('file leaves the etcd of the file alone', async () => {
    const local = { control: { etcd: { endpoints: ['http://127.0.0.1:1'] } } }
    const args = ['--config-source', 'file']
    const node = await startNode('a', { endpoints: [], prefix: '', args, ...local })
    expect(await node.limit()).toBe(1)
    expect(node.process.output()).not.toContain('etcd')
  })
})

test(
  'a command that cannot start ends, also if it has begun to follow etcd',
  async () => {
    const folder = makeFolder()
    onTestFinished(() => removeFolder(folder))
    const file = join(folder, 'tidegate.yaml')
    const etcd = { endpoints: ['http://127.0.0.1:1'] }
    writeFileSync(file, JSON.stringify({ control: { etcd }, limits: [] }))
    const program = programFile
    const started = promisify(execFile)(process.execPath, [program, 'serve', '--config', file], {
      timeout: SLOW_MS,
    })
    await expect(started).rejects.toMatchObject({
      code: 1,
      killed: false,
      stderr: expect.stringContaining('nothing to serve'),
    })
  },
  SLOW_MS,
)
