/**
 * The processor time of two gateways side by side, one of them with an open page. It is printed and
 * not asserted: other processes share the machine. Both get the same few requests, so that the page
 * has something to show: at full load, the noise of the requests would be many times its cost.
 */

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { Agent, request } from 'undici'
import { expect, onTestFinished, test } from 'vitest'
import { repositoryRoot } from '../../house/source-file.ts'
import { processorMs } from '../../support/processor-time.ts'
import { chromiumBinary } from '../../support/servers/chromium.ts'
import { freePort } from '../../support/servers/ports.ts'
import { startBackend, startGatewayProcess } from '../cli/gateway-process.ts'
import { buildConsole, openConsole, startBrowser, TOKEN } from './console-service.ts'

const WARM_ROUNDS = 100
const ROUNDS = 400
const PAUSE_MS = 50
const AT_ONCE = 8

// The browser may be missing on a machine of a developer.
test.skipIf(chromiumBinary() === undefined)('prints the cost of an open page', async () => {
  buildConsole()
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const start = async () => {
    const adminPort = await freePort()
    const gateway = await startGatewayProcess({
      policy: {
        upstreams: { api: { targets: [backend.url] } },
        admin: { listen: { port: adminPort }, token: { env: 'TOKEN' } },
        limits: [{ name: 'per-client', key: 'ip', limit: 1_000_000, per: '1h' }],
      },
      environment: { TOKEN },
      program: join(repositoryRoot, 'packages/server/src/main.ts'),
    })
    onTestFinished(() => gateway.stop().then(() => undefined))
    return { ...gateway, adminUrl: `http://127.0.0.1:${adminPort}` }
  }
  const gateways = { alone: await start(), watched: await start() }
  const browser = (await startBrowser()) as Browser
  onTestFinished(() => browser.close())
  const { page } = await openConsole(browser, gateways.watched.adminUrl, TOKEN)
  await page.locator('.stats').waitFor()
  const agent = new Agent({ connections: AT_ONCE })
  onTestFinished(() => agent.close())
  const both = [gateways.alone, gateways.watched] as const
  await load(both, agent, WARM_ROUNDS)
  const timesOf = () => both.map(({ child }) => processorMs(child.pid ?? 0))
  const before = timesOf()
  const startMs = performance.now()
  await load(both, agent, ROUNDS)
  const tookMs = performance.now() - startMs
  const [alone = 0, watched = 0] = timesOf().map((ms, at) => ms - (before[at] ?? 0))
  const share = (watched - alone) / tookMs
  console.log(
    `in ${Math.round(tookMs / 1000)} s the gateway took ${alone} ms of processor time alone, and ` +
      `${watched} ms with an open page: the page takes ${(share * 100).toFixed(2)} % of a core`,
  )
  expect(alone).toBeGreaterThan(0)
})

/** Sends the same requests to all gateways at the same time. */
async function load(
  gateways: readonly { url: string }[],
  dispatcher: Agent,
  rounds: number,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const sent = gateways.flatMap(({ url }) =>
      Array.from({ length: AT_ONCE }, async () => {
        const { body } = await request(url, { dispatcher })
        await body.dump()
      }),
    )
    await Promise.all([...sent, sleep(PAUSE_MS)])
  }
}
