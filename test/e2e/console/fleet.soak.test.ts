/** The console of a fleet, in a real browser: canaries, lost races, many nodes, shared streams. */

import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { EtcdKeyValue } from '../../../packages/server/src/control/etcd/etcd-key-value.ts'
import { NodeReporter } from '../../../packages/server/src/control/nodes/node-report.ts'
import { chromiumBinary } from '../../support/servers/chromium.ts'
import { type EtcdCluster, isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { until } from '../../support/servers/until.ts'
import {
  buildConsole,
  type ConsoleService,
  longestTasks,
  openConsole,
  startBrowser,
  startConsoleService,
  TOKEN,
} from './console-service.ts'
import { writeAuditRecords } from './many-records.ts'

const isMissing = chromiumBinary() === undefined || isEtcdMissing()

const NODES = 50
const RECORDS = 10_000

const text = (limit: number) =>
  `limits:\n  - { name: per-client, key: ip, limit: ${limit}, per: 1h }\n`

// Both programs may be missing on a machine of a developer.
describe.skipIf(isMissing)('the console of a fleet', () => {
  let browser: Browser
  let etcd: EtcdCluster
  let prefixes = 0

  beforeAll(async () => {
    buildConsole()
    const [found, cluster] = await Promise.all([startBrowser(), startEtcd()])
    if (found === undefined) throw new Error('there is no browser')
    browser = found
    etcd = cluster
  })

  afterAll(async () => {
    await browser?.close()
    await etcd?.stop()
  })

  const newFleet = () => {
    prefixes += 1
    const prefix = `/fleet-${prefixes}/`
    const start = async (node: string, region: string): Promise<ConsoleService> => {
      const control = { node, etcd: { endpoints: etcd.endpoints, prefix } }
      const service = await startConsoleService({ control, region, limits: [] })
      onTestFinished(() => service.stop())
      return service
    }
    return { prefix, start }
  }

  const publish = async (service: ConsoleService, limit: number, expected: number) => {
    const body = { text: text(limit), why: `limit ${limit}` }
    const published = await service.call('PUT', '/v1/policy', body, { 'if-match': `"${expected}"` })
    expect(published.status).toBe(200)
  }

  const begin = async (page: Page, limit: number, choose: () => Promise<unknown>) => {
    await page.getByLabel('Policy, as YAML').fill(text(limit))
    await page.getByRole('button', { name: 'Publish' }).click()
    await choose()
    await page.getByLabel('Reason').fill('a try')
    await page.getByRole('button', { name: 'Begin the canary' }).click()
  }

  test('a canary begins, is promoted and is aborted on the page, node by node', async () => {
    const { start } = newFleet()
    const [eu, us] = [await start('a', 'eu'), await start('b', 'us')]
    await publish(eu, 5, 0)
    const { page, context, complaints, goTo } = await openConsole(browser, eu.adminUrl, TOKEN)
    await goTo('change')
    await begin(page, 7, async () => {
      await page.getByLabel(/^To/).selectOption('region')
      await page.getByLabel(/^Region/).selectOption('eu')
    })
    await page.getByText('on 1 of 1 nodes').waitFor()
    await page.getByText('Version 2 is a canary for the region eu').waitFor()
    await page.getByRole('row', { name: /^a this node canary applied v2/ }).waitFor()
    await page.getByRole('row', { name: /^b applied v1/ }).waitFor()
    await until('b keeps its version', async () => {
      return ((await us.call('GET', '/v1/limits')).body.limits as { numbers: string }[])[0]?.numbers
    }).then((numbers) => expect(numbers).toBe('5 per 1h'))
    await page.getByRole('button', { name: 'Promote' }).click()
    await page.getByLabel('Reason').fill('it works')
    await page.getByRole('dialog').getByRole('button', { name: 'Promote' }).click()
    await page.getByRole('row', { name: /^b applied v2/ }).waitFor()
    await page.getByText('2 of 2 have their version').waitFor()
    await page.getByRole('button', { name: 'Load it, and lose this draft' }).click()
    await page.getByText('Policy, from version 2').waitFor()
    await begin(page, 9, async () => {
      await page.getByLabel(/^To/).selectOption('nodes')
      await page.getByLabel('b', { exact: true }).check()
    })
    await page.getByRole('row', { name: /^b canary applied v3/ }).waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByRole('row', { name: /^b applied v2/ }).waitFor()
    expect(await page.getByText(/is a canary for/).count()).toBe(0)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('shows the traffic of the other nodes, and their sum', async () => {
    const { start } = newFleet()
    const [one, other] = [await start('a', 'eu'), await start('b', 'us')]
    await publish(one, 1_000_000, 0)
    const { page, context } = await openConsole(browser, one.adminUrl, TOKEN)
    const busy = setInterval(() => void other.ask('198.51.100.7').catch(() => undefined), 50)
    onTestFinished(() => clearInterval(busy))
    await page.getByRole('row', { name: /^b applied v1 [1-9]/ }).waitFor({ timeout: 60_000 })
    await page.getByText(/^All nodes: [1-9][\d.]*\/s admitted/).waitFor()
    await context.close()
  })

  test('a publication that came second is refused with the difference', async () => {
    const { start } = newFleet()
    const service = await start('a', 'eu')
    await publish(service, 5, 0)
    const { page, context, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    await goTo('change')
    await page.getByLabel('Policy, as YAML').fill(text(7))
    await page.getByRole('button', { name: 'Publish' }).click()
    await page.getByLabel('Reason').fill('too late')
    await publish(service, 6, 1)
    await page.getByRole('button', { name: /Publish to/ }).click()
    await page.getByText('Another version came first. Version 2 is by bootstrap.').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    const panel = page.locator('.panel', { hasText: 'From the version that you have seen to it' })
    await panel.getByText('+  - { name: per-client, key: ip, limit: 6, per: 1h }').waitFor()
    expect((await service.call('GET', '/v1/policy')).body.current).toMatchObject({ version: 2 })
    await page.getByText('Version 2 is live meanwhile.').waitFor()
    await context.close()
  })

  test('a block is set and undone in two clicks', async () => {
    const { start } = newFleet()
    const service = await start('a', 'eu')
    await publish(service, 5, 0)
    await until('it is live', async () => {
      return ((await service.call('GET', '/v1/limits')).body.limits as object[]).length === 1
    })
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    await goTo('client')
    await page.getByLabel('Client', { exact: true }).fill('198.51.100.7')
    await page.getByRole('button', { name: 'Look up' }).click()
    await page.getByRole('button', { name: 'Block' }).click()
    await page.getByLabel('Reason').fill('abuse')
    await page.getByRole('dialog').getByRole('button', { name: 'Block' }).click()
    await until('the client is blocked', async () => (await service.ask('198.51.100.7')) === 403)
    await page.getByText('blocked with 403').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('Undone: The client is blocked.').waitFor()
    await until('the client is admitted', async () => (await service.ask('198.51.100.7')) === 200)
    expect(complaints).toEqual([])
    await context.close()
  })

  test(`${NODES} nodes and ${RECORDS} audit records are drawn quickly`, async () => {
    const { start, prefix } = newFleet()
    const store = new EtcdKeyValue({ endpoints: etcd.endpoints, prefix })
    onTestFinished(() => store.close())
    await writeAuditRecords(store, RECORDS)
    const service = await start('node-0', 'eu')
    await publish(service, 5, 0)
    for (let at = 1; at < NODES; at++) {
      const status = () => ({ published: 1, hash: '' })
      const options = { store, node: `node-${at}`, region: 'us', program: 'tidegate 1.2.3', status }
      const reporter = new NodeReporter(options)
      onTestFinished(() => reporter.close())
      reporter.applied(1)
    }
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    await page.getByText(`Nodes (${NODES})`).waitFor()
    await page.getByText(`${NODES} of ${NODES} have their version`).waitFor()
    const longest = await longestTasks(page, async () => {
      // Until the stream has told of the requests, and of the end of them.
      const rate = page.locator('.stat dd').first()
      const busy = setInterval(() => void service.ask('198.51.100.7').catch(() => 0), 50)
      onTestFinished(() => clearInterval(busy))
      for (const wanted of [/^[1-9]/, /^0\/s/]) {
        await until(`the rate is ${wanted}`, async () => {
          await page.mouse.wheel(0, 200)
          return wanted.test(await rate.innerText())
        })
        clearInterval(busy)
      }
    })
    console.log(
      `${NODES} nodes: tasks above 50 ms while scrolling: ${longest.join(', ') || 'none'}`,
    )
    const startMs = performance.now()
    await goTo('audit')
    await page.getByRole('row').nth(100).waitFor({ state: 'attached' })
    const paintMs = Math.round(performance.now() - startMs)
    await page.getByRole('button', { name: 'Older' }).click()
    await page.getByRole('button', { name: 'Latest' }).waitFor()
    await page.getByLabel('Target').fill('42')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByRole('cell', { name: 'entry 42', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Verify the chain' }).click()
    await page.getByText(/^The chain of \d+ records is whole/).waitFor()
    console.log(`${RECORDS} audit records: the first page after ${paintMs} ms`)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('pages of one browser share a stream, and another takes over', async () => {
    const { start } = newFleet()
    const service = await start('a', 'eu')
    const { page, context } = await openConsole(browser, service.adminUrl, TOKEN)
    await page.locator('.stats').waitFor()
    const streams: string[] = []
    context.on('request', (request) => {
      if (request.url().endsWith('/v1/stream')) streams.push(request.url())
    })
    const other = await context.newPage()
    await other.goto(`${service.adminUrl}/console/`)
    await other.locator('.stats').waitFor()
    expect(streams).toEqual([])
    await page.close()
    await until('the other page reads the stream', () => streams.length === 1)
    for (let at = 0; at < 3; at++) await service.ask('198.51.100.7')
    await other.getByRole('button', { name: 'Log out' }).click()
    await other.getByLabel('Token').waitFor()
    await context.close()
  })
})
