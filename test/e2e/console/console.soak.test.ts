/** The console in all themes and widths, with much data, and while servers go away. */

import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRegionNode } from '../../support/regions/region-node.ts'
import { startRegionWorld } from '../../support/regions/region-world.ts'
import { chromiumBinary } from '../../support/servers/chromium.ts'
import { isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { freePort } from '../../support/servers/ports.ts'
import { startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import {
  axeComplaints,
  buildConsole,
  longestTasks,
  openConsole,
  screens,
  startBrowser,
  startConsoleService,
  TOKEN,
} from './console-service.ts'

const isMissing = chromiumBinary() === undefined || isEtcdMissing()

/** The maximum of a policy. */
const LIMITS_MAX = 1_000

const limits = [{ name: 'per-client', key: 'ip', limit: 3, per: '1h' }]

// Both programs may be missing on a machine of a developer.
describe.skipIf(isMissing)('the console', () => {
  let browser: Browser

  beforeAll(async () => {
    buildConsole()
    const found = await startBrowser()
    if (found === undefined) throw new Error('there is no browser')
    browser = found
  })

  afterAll(() => browser?.close())

  const started = async (...asked: Parameters<typeof startConsoleService>) => {
    const service = await startConsoleService(...asked)
    onTestFinished(() => service.stop())
    return service
  }

  // Contrast depends on the theme, and hidden parts on the width: two pairs cover both.
  test.for([
    ['light', 360, true],
    ['light', 1_440, false],
    ['dark', 360, false],
    ['dark', 1_440, true],
  ] as const)('in %s at %i px every screen fits (axe: %s)', async ([theme, width, hasAxe]) => {
    const service = await started({ limits })
    for (let at = 0; at < 5; at++) await service.ask('198.51.100.7')
    const size = { viewport: { width, height: 800 }, colorScheme: theme }
    const opened = await openConsole(browser, service.adminUrl, TOKEN, size)
    const found: string[] = []
    for (const screen of screens) {
      await opened.goTo(screen)
      if (hasAxe) found.push(...(await axeComplaints(opened.page, screen)))
      const main = await opened.page.locator('main').boundingBox()
      if ((main?.width ?? 0) > width) found.push(`${screen}: is ${main?.width} px wide`)
    }
    expect(found).toEqual([])
    expect(opened.complaints).toEqual([])
    await opened.context.close()
  })

  test('goes on by itself after a restart of the node', async () => {
    const port = await freePort()
    const first = await startConsoleService({ limits }, port)
    const { page, context } = await openConsole(browser, first.adminUrl, TOKEN)
    await page.locator('.stats').waitFor()
    await first.stop()
    await page.getByText(/^No data since/).waitFor()
    const second = await started({ limits }, port)
    await page.getByText(/^No data since/).waitFor({ state: 'detached' })
    for (let at = 0; at < 5; at++) await second.ask('198.51.100.9')
    await page.getByRole('button', { name: '198.51.100.9' }).first().waitFor()
    await context.close()
  })

  test('says that Redis and etcd are away, and that they are back', async () => {
    const [redis, etcd] = await Promise.all([startRedis(), startEtcd()])
    onTestFinished(() => redis.stop())
    onTestFinished(() => etcd.stop())
    const service = await started({
      store: { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`] },
      control: { node: 'one', etcd: { endpoints: etcd.endpoints, prefix: '/soak/' } },
      limits,
    })
    const { page, context } = await openConsole(browser, service.adminUrl, TOKEN)
    await page.locator('.stats').waitFor()
    redis.kill('SIGKILL')
    await page.getByText(/^The store does not answer/).waitFor({ timeout: 60_000 })
    await redis.restart()
    await page
      .getByText(/^The store does not answer/)
      .waitFor({ state: 'detached', timeout: 60_000 })
    const [member] = etcd.members
    member?.kill('SIGKILL')
    await page.getByText(/^etcd does not answer/).waitFor({ timeout: 60_000 })
    await page.locator('.stats').waitFor()
    await member?.restart()
    await page.getByText(/^etcd does not answer/).waitFor({ state: 'detached', timeout: 60_000 })
    const body = { text: 'limits: []\n', why: 'etcd is back' }
    await until('a version can be published', async () => {
      const { status } = await service.call('PUT', '/v1/policy', body, { 'if-match': '"0"' })
      // 412: a publication that was not answered in time was applied all the same.
      return status === 200 || status === 412
    })
    await page.getByText('etcd is back').first().waitFor()
    await context.close()
  })

  test('shows which regions answer, and what their limits guarantee', async () => {
    const world = await startRegionWorld()
    onTestFinished(() => world.stop())
    const shared = { key: 'ip', limit: 300, per: 'day', algorithm: 'fixedWindow' } as const
    const regionLimits = ['partition', 'home'].map((mode) => {
      return { ...shared, name: `by-${mode}`, regions: { mode } }
    })
    const us = await startRegionNode(world, 'us', regionLimits)
    onTestFinished(() => us.stop())
    const service = await started({ ...world.sections('eu'), limits: regionLimits })
    const size = { viewport: { width: 1_440, height: 800 } }
    const opened = await openConsole(browser, service.adminUrl, TOKEN, size)
    await opened.goTo('regions')
    const row = (name: string) => opened.page.getByRole('row', { name: new RegExp(`^${name} `) })
    await row('us')
      .getByText(/answers$/)
      .waitFor()
    await row('ap').getByText('does not answer').waitFor()
    await row('by-partition').getByText('a region alone gets 100 of 300').waitFor()
    const asking = setInterval(() => void service.ask('198.51.100.7').catch(() => 0), 50)
    onTestFinished(() => clearInterval(asking))
    await row('by-partition').getByText('by the share of this region').waitFor()
    clearInterval(asking)
    expect(await axeComplaints(opened.page, 'regions')).toEqual([])
    expect(opened.complaints).toEqual([])
    await opened.context.close()
  })

  test('keys lead to screens, to a search and to their list, and can be turned off', async () => {
    const service = await started({ limits })
    const { page, context, complaints } = await openConsole(browser, service.adminUrl, TOKEN)
    const isAt = (name: string) => page.getByRole('heading', { name, level: 1 }).waitFor()
    // The heading of the log-in is one too.
    await isAt('Now')
    // A letter that comes too late after its `g`, on a machine that stalls, is not a shortcut.
    await until('the keys lead there', async () => {
      await page.keyboard.press('g')
      await page.keyboard.press('l')
      const heading = page.getByRole('heading', { name: 'Limits', level: 1 })
      await heading.waitFor({ timeout: 3_000 })
      return true
    })
    // It appears with the limits, a moment after the heading.
    await page.getByLabel('Filter').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('gn?')
    expect(await page.getByLabel('Filter').inputValue()).toBe('gn?')
    await isAt('Limits')
    await page.locator('main').focus()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
    expect(await axeComplaints(page, 'shortcuts')).toEqual([])
    await page.getByLabel('Shortcuts are on').uncheck()
    await page.keyboard.press('Escape')
    await page.locator('main').focus()
    await page.keyboard.press('?')
    await page.keyboard.press('g')
    await page.keyboard.press('n')
    await isAt('Limits')
    expect(await page.getByRole('dialog').count()).toBe(0)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('10 KB of text in a field is refused as text, and the layout stays whole', async () => {
    const service = await started({ limits })
    const { page, context, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    const long = '<b>\u202e'.repeat(2_048)
    const found: string[] = []
    const look = async (screen: string, button: string | undefined) => {
      if (button !== undefined) await page.getByRole('button', { name: button }).click()
      await page.locator('.problem, .problems li').first().waitFor()
      const width = await page.evaluate<number>('document.documentElement.scrollWidth')
      if (width > 1_440) found.push(`${screen} is ${width} px wide`)
      found.push(...(await page.locator('main b, main i').allInnerTexts()))
    }
    await goTo('explain')
    await page.getByLabel('User').fill(long)
    await page.getByLabel('Path').fill(`/${long}`)
    await look('explain', 'Explain')
    await goTo('client')
    await page.getByLabel('Client', { exact: true }).fill('198.51.100.7')
    await page.getByLabel('Path').fill(`/${long}`)
    await look('client', 'Look up')
    await goTo('change')
    await page.getByLabel('Policy, as YAML').fill(`limits: [{ name: '${long}' }]`)
    await look('change', undefined)
    expect(found).toEqual([])
    await context.close()
  })

  test('shows 1,000 limits, the maximum of a policy, of which a filter finds one', async () => {
    const etcd = await startEtcd()
    onTestFinished(() => etcd.stop())
    const many = Array.from({ length: LIMITS_MAX }, (_, at) => {
      return { name: `limit-${at}`, key: 'ip', limit: 3, per: '1h', match: { path: `/p${at}` } }
    })
    const service = await started({
      control: { node: 'one', etcd: { endpoints: etcd.endpoints, prefix: '/many/' } },
      limits: many,
    })
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    const startMs = performance.now()
    await goTo('limits')
    await page.getByRole('row').nth(LIMITS_MAX).waitFor({ state: 'attached' })
    console.log(
      `${LIMITS_MAX} limits were drawn after ${Math.round(performance.now() - startMs)} ms`,
    )
    const longest = await longestTasks(page, async () => {
      for (let at = 0; at < 40; at++) {
        await page.mouse.wheel(0, 400)
        await page.waitForTimeout(50)
      }
    })
    console.log(`tasks above 50 ms while scrolling: ${longest.join(', ') || 'none'}`)
    await page.getByLabel('Filter').fill('limit-999')
    await page.getByRole('link', { name: 'limit-999' }).waitFor()
    expect(await page.getByRole('row').count()).toBe(2)
    expect(complaints).toEqual([])
    await context.close()
  })
})
