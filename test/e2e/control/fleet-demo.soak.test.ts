/** `./run.sh serve --etcd`. */

import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing } from '../../support/servers/etcd/etcd.ts'
import { freePort } from '../../support/servers/ports.ts'
import { until } from '../../support/servers/until.ts'
import { run, start } from '../cli/example-process.ts'

const PROGRAM = 'examples/fleet.ts'

async function ports() {
  const [first, second, backend] = [await freePort(), await freePort(), await freePort()]
  return { PORT: String(first), SECOND_PORT: String(second), BACKEND_PORT: String(backend) }
}

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('the demo of a fleet', () => {
  test('prints when each gateway had a change, and ends with everything it started', async () => {
    const environment = await ports()
    const { child, printed } = start(PROGRAM, [], environment)
    onTestFinished(() => void child.kill('SIGKILL'))
    await until('it has shown everything', () => {
      if (child.exitCode !== null) throw new Error(printed.text)
      return printed.text.includes('Ctrl+C stops everything.')
    })
    for (const version of [1, 2]) expect(printed.text).toContain(`published version ${version}:`)
    for (const node of [1, 2]) {
      const lines = printed.text.match(new RegExp(`gateway-${node} had it after \\d+ ms`, 'g'))
      expect(lines).toHaveLength(2)
    }
    const etcd = /etcd: (\S+)/.exec(printed.text)?.[1] ?? ''
    child.kill('SIGINT')
    const [code] = (await once(child, 'exit')) as [number]
    expect(code).toBe(0)
    const urls = [etcd, ...Object.values(environment).map((port) => `http://127.0.0.1:${port}`)]
    for (const url of urls) await expect(fetch(url)).rejects.toThrow('fetch failed')
  })

  test('reports in a line that etcd is missing', async () => {
    const { code, text } = await run(PROGRAM, [], { ...(await ports()), TIDEGATE_ETCD: '/none' })
    expect({ code, text }).toEqual({
      code: 1,
      text: 'run.sh: etcd was not found; apt-get install etcd-server, or set TIDEGATE_ETCD\n',
    })
  })
})
