/** Every command of docs/runbook.md runs against a real gateway, in the order of the page. */

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { runCli } from '../../../packages/server/src/cli/cli.ts'
import { readText } from '../../house/source-file.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { findProgram } from '../../support/servers/find-program.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { until } from '../../support/servers/until.ts'
import { newPrefix } from '../control/fleet-node.ts'
import { probeLimit } from './busy-service.ts'
import { type MeteredService, startMeteredService, TOKEN } from './metered-service.ts'

const api = { name: 'api', key: 'organisation', otherwise: 'skip', limit: 100, per: '1m' }
const limits = [api, probeLimit]

/** The lines of all blocks of commands; each is a whole command. */
const lines = Array.from(readText('docs/runbook.md').matchAll(/```sh\n(.*?)```/gs))
  .flatMap(([, text = '']) => text.trim().split('\n'))
  .filter((line) => !line.startsWith('export '))

/** Programs that not every machine with the tests has. */
const optional = ['redis-cli', 'etcdctl', 'curl']

// It needs etcd, which not every machine has.
describe.skipIf(isEtcdMissing())('docs/runbook.md', () => {
  test('has commands that work in their order', async () => {
    const { service, folder, environment } = await setUp()
    expect(lines.length).toBeGreaterThan(25)
    expect(lines.filter((line) => !/^(tidegate|curl|redis-cli|etcdctl) /.test(line))).toEqual([])
    await tidegate('policy publish limits.yaml --why first --wait 1m --config tidegate.yaml')
    for (const line of lines) {
      const [program = ''] = line.split(' ')
      // A machine that stalls may need longer than an operator waits.
      const words = line.replace('tidegate ', '').replace('--wait 5s', '--wait 1m')
      if (program === 'tidegate') await tidegate(words)
      else if (!optional.includes(program) || findProgram([program]) !== undefined) {
        const { stdout, stderr } = await promisify(execFile)(
          'bash',
          ['-ec', `set -o pipefail; ${line}`],
          {
            env: { ...process.env, ...environment },
          },
        )
        expect(stdout + stderr, line).not.toBe('')
      }
    }
    // After all undos, one policy is live and nothing is left.
    await until('the last rollback is live', async () => isAsBefore(service))

    async function tidegate(line: string): Promise<void> {
      let text = ''
      const write = (part: string) => {
        text += part
      }
      const terminal = { environment, stdout: write, stderr: write }
      const code = await runCli(argumentsOf(line, environment, folder), terminal)
      expect({ line, code, text }).toMatchObject({ code: 0 })
    }
  })
})

async function isAsBefore(service: MeteredService): Promise<boolean> {
  const page = await service.page()
  return ['switch_state{state="on"} 1', 'tidegate_blocks 0', 'tidegate_policy_limits 2'].every(
    (text) => page.includes(text),
  )
}

async function setUp() {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const etcd = await startEtcd()
  onTestFinished(() => etcd.stop())
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const local = {
    // The prober of the page expects exact decisions.
    store: { mode: 'standalone', addresses: [`${redis.host}:${redis.port}`], deadline: '30s' },
    control: { node: 'a', etcd: { endpoints: etcd.endpoints, prefix: newPrefix() } },
    limits: [],
  }
  const service = await startMeteredService(local)
  const shadowed = [{ ...api, mode: 'shadow' }, probeLimit]
  writeFileSync(join(folder, 'limits.yaml'), JSON.stringify({ limits }))
  writeFileSync(join(folder, 'shadowed.yaml'), JSON.stringify({ limits: shadowed }))
  writeFileSync(
    join(folder, 'tidegate.yaml'),
    JSON.stringify({ ...local, upstreams: { api: { targets: ['http://127.0.0.1:9'] } } }),
  )
  const environment = {
    TIDEGATE_ADMIN: service.adminUrl,
    TIDEGATE_TOKEN: TOKEN,
    GATEWAY: service.service.gateway?.url ?? '',
    REDIS_URL: redis.url,
    ETCD_ENDPOINTS: etcd.endpoints.join(','),
  }
  return { service, folder, environment }
}

/** The words of a line, with quotes and variables as a shell reads them. */
function argumentsOf(
  line: string,
  environment: Readonly<Record<string, string>>,
  folder: string,
): readonly string[] {
  const words = Array.from(
    line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g),
    ([, single, double, bare]) =>
      single ?? (double ?? bare ?? '').replaceAll(/\$(\w+)/g, (_, name) => environment[name] ?? ''),
  )
  return words.map((word) => (word.endsWith('.yaml') ? join(folder, word) : word))
}
