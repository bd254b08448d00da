/** The console in a real browser, with a real gateway, Redis and etcd. */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chromiumBinary } from '../../support/servers/chromium.ts'
import { type EtcdCluster, isEtcdMissing, startEtcd } from '../../support/servers/etcd/etcd.ts'
import { type RedisServer, startRedis } from '../../support/servers/redis.ts'
import { until } from '../../support/servers/until.ts'
import {
  axeComplaints,
  buildConsole,
  type ConsoleService,
  openConsole,
  screens,
  startBrowser,
  startConsoleService,
  TOKEN,
} from './console-service.ts'

/** Chromium and etcd are installed by `./run.sh test`. */
const isMissing = chromiumBinary() === undefined || isEtcdMissing()

const FIRST_LOAD_BYTES_MAX = 60 * 1_024

const FLOODER = '198.51.100.7'

const text = (limit: number) => `limits:
  - { name: per-client, key: ip, limit: ${limit}, per: 1h }
  - { name: next, key: ip, limit: 2, per: 1h, mode: shadow }
`

// Both programs may be missing on a machine of a developer.
describe.skipIf(isMissing)('the console', () => {
  let browser: Browser
  let redis: RedisServer
  let etcd: EtcdCluster
  let service: ConsoleService

  beforeAll(async () => {
    buildConsole()
    const [found, server, cluster] = await Promise.all([startBrowser(), startRedis(), startEtcd()])
    if (found === undefined) throw new Error('there is no browser')
    browser = found
    redis = server
    etcd = cluster
    service = await startConsoleService({
      store: { mode: 'standalone', addresses: [`127.0.0.1:${redis.port}`], deadline: '30s' },
      control: { node: 'one', etcd: { endpoints: etcd.endpoints, prefix: '/console/' } },
      limits: [],
    })
    const body = { text: text(5), why: 'the first' }
    const published = await service.call('PUT', '/v1/policy', body, { 'if-match': '"0"' })
    expect(published.status).toBe(200)
    await until('the policy is live', async () => {
      const { body: found } = await service.call('GET', '/v1/limits')
      return (found.limits as unknown[]).length === 2
    })
  })

  afterAll(async () => {
    await browser?.close()
    await service?.stop()
    await Promise.all([redis?.stop(), etcd?.stop()])
  })

  test('loads at most 60 KB at first', () => {
    const folder = join(import.meta.dirname, '../../../packages/server/console/assets')
    const first = readdirSync(folder).filter((name) => /^index-.*\.(js|css)\.gz$/.test(name))
    const bytes = first.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
    expect(first).toHaveLength(2)
    expect(bytes).toBeLessThanOrEqual(FIRST_LOAD_BYTES_MAX)
  })

  test('files may be kept, the page may not, and nothing comes from elsewhere', async () => {
    const page = await fetch(`${service.adminUrl}/console/`)
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'; script-src 'self'")
    expect(policy).not.toContain('unsafe')
    expect(page.headers.get('cache-control')).toBe('no-store')
    const [, script] = /src="\.\/([^"]+)"/.exec(await page.text()) ?? []
    const file = await fetch(`${service.adminUrl}/console/${script}`)
    expect(file.headers.get('cache-control')).toContain('immutable')
    expect(file.headers.get('content-encoding')).toBe('gzip')
  })

  test('asks for a token, and says that a wrong one is wrong', async () => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${service.adminUrl}/console/`)
    await page.getByLabel('Token').fill('wrong')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByLabel('Token').fill(TOKEN)
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByRole('heading', { name: 'Now', level: 1 }).waitFor()
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', secure: true })
    await context.close()
  })

  test('every screen is drawn without an error, and axe finds nothing on two', async () => {
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    const found: string[] = []
    for (const screen of screens) {
      await goTo(screen)
      // It takes seconds for each screen; the soak suite asks it about all.
      if (screen === 'now' || screen === 'switch') {
        found.push(...(await axeComplaints(page, screen)))
      }
    }
    expect(found).toEqual([])
    expect(complaints).toEqual([])
    await context.close()
  })

  test('a flood is named, its reason is a click away, and an override helps', async () => {
    const { page, context, complaints } = await openConsole(browser, service.adminUrl, TOKEN)
    const startMs = performance.now()
    for (let at = 0; at < 8; at++) await service.ask(FLOODER)
    const named = page.getByRole('button', { name: FLOODER }).first()
    await named.waitFor()
    console.log(`a flood was named after ${Math.round(performance.now() - startMs)} ms`)
    await named.click()
    await page.getByText('refused by per-client').waitFor()
    await page
      .getByText(/refusals since/)
      .first()
      .waitFor()
    const card = page.locator('.card', { hasText: 'per-client' })
    await card.getByRole('button', { name: 'Override' }).click()
    await page.getByRole('spinbutton').fill('100')
    await page.getByLabel('Reason').fill('a promise')
    await page.getByRole('button', { name: 'Set the override' }).click()
    await until('the override holds', async () => (await service.ask(FLOODER)) === 200)
    await page.getByText('live override').waitFor()
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText(/^Undone/).waitFor()
    await until('the override is gone', async () => (await service.ask(FLOODER)) === 429)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('a change is tried on the traffic and published, and another browser sees it', async () => {
    const one = await openConsole(browser, service.adminUrl, TOKEN)
    const other = await openConsole(browser, service.adminUrl, TOKEN)
    await other.goTo('versions')
    await one.goTo('change')
    for (let at = 0; at < 4; at++) await service.ask('198.51.100.8')
    const area = one.page.getByLabel('Policy, as YAML')
    await area.fill(text(5).replace('limit: 5', 'limit: none'))
    await one.page.locator('.problems li').first().waitFor()
    await area.fill(text(1))
    await one.page.getByText('Limits: 1 changed').waitFor()
    const row = one.page.getByRole('row', { name: /per-client 5 per 1h 1 per 1h/ })
    await row.waitFor()
    expect(await row.innerText()).toMatch(/1 of \d/)
    await one.page.getByRole('button', { name: 'Publish' }).click()
    await one.page.getByLabel('Reason').fill('stricter')
    await one.page.getByRole('button', { name: /Publish to/ }).click()
    const startMs = performance.now()
    await other.page.getByRole('cell', { name: /stricter/ }).waitFor()
    await other.page.getByRole('cell', { name: 'v2' }).waitFor()
    const seenMs = Math.round(performance.now() - startMs)
    console.log(`a publication was seen by another browser after ${seenMs} ms`)
    await one.page.getByRole('button', { name: 'Undo' }).click()
    await other.page.getByRole('cell', { name: 'v3' }).waitFor()
    expect([...one.complaints, ...other.complaints]).toEqual([])
    await one.context.close()
    await other.context.close()
  })

  test('texts of clients are shown as texts', async () => {
    const hostile = '<img src=x onerror=alert(1)>"\u202e{{x}}'
    const name = { name: 'ada <b>bold</b>', role: 'read', for: '1h', why: '<script>1</script>' }
    await service.call('POST', '/v1/tokens', name)
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    await goTo('client')
    await page.getByLabel('Kind').selectOption('user')
    await page.getByLabel('Client', { exact: true }).fill(hostile)
    await page.getByRole('button', { name: 'Look up' }).click()
    await page.getByText('<img src=x onerror=alert(1)>"\\u{202e}{{x}}').waitFor()
    await goTo('tokens')
    await page.getByText('ada <b>bold</b>').waitFor()
    await goTo('audit')
    await page.getByText('<script>1</script>').first().waitFor()
    expect(await page.locator('main img, main script, main b').count()).toBe(0)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('the role read sees no action and is told why', async () => {
    const token = await service.tokenFor('read')
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, token)
    await goTo('client')
    await page.getByText('Your role is read. To look up a client').waitFor()
    await goTo('switch')
    await page.getByText('Your role is read. To use the switch').waitFor()
    await goTo('change')
    await page.getByText('Your role is read. To publish').waitFor()
    await goTo('versions')
    expect(await page.getByRole('button', { name: 'Roll back' }).count()).toBe(0)
    await goTo('limited')
    await page
      .getByText(/^hmac-sha256:/)
      .first()
      .waitFor()
    expect(await page.getByText(FLOODER).count()).toBe(0)
    expect(complaints).toEqual([])
    await context.close()
  })

  test('requests with idempotency keys are counted by what became of them', async () => {
    const { page, context, complaints, goTo } = await openConsole(browser, service.adminUrl, TOKEN)
    await goTo('upstreams')
    await page.getByText('The policy has no idempotency keys.').waitFor()
    const { current } = (await service.call('GET', '/v1/policy')).body
    const body = { text: `${text(5)}idempotency: { scope: ip }\n`, why: 'keys' }
    const version = { 'if-match': `"${Object(current).version}"` }
    expect((await service.call('PUT', '/v1/policy', body, version)).status).toBe(200)
    const keys = page.locator('.panel', { hasText: 'Idempotency keys' })
    await keys.getByText('In flight').waitFor()
    const statuses: number[] = []
    for (const [key, sent] of [...Array(3).fill(['one', 'a']), ['one', 'b'], ['"', 'a']]) {
      const headers = { 'x-forwarded-for': '198.51.100.9', 'idempotency-key': key }
      const url = `${service.service.gateway?.url}/`
      statuses.push((await fetch(url, { method: 'POST', headers, body: sent })).status)
    }
    expect(statuses).toEqual([200, 200, 200, 422, 400])
    const counts = { Executed: 1, Replayed: 2, Conflicts: 1, Refused: 1 }
    for (const [label, count] of Object.entries(counts)) {
      await keys.locator('.stat', { hasText: label }).getByText(`${count} in all`).waitFor()
    }
    expect(complaints).toEqual([])
    await context.close()
  })
})
