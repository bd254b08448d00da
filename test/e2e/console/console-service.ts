/** A gateway with its console on real servers, in this process, and one browser for all tests. */

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { readPolicyConfig } from '../../../packages/server/src/app/policy-config.ts'
import { sectionParts } from '../../../packages/server/src/app/policy-parts.ts'
import {
  type PolicyService,
  startPolicyService,
} from '../../../packages/server/src/app/policy-service.ts'
import type { Role } from '../../../packages/server/src/control/roles.ts'
import { chromiumBinary } from '../../support/servers/chromium.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { startBackend } from '../cli/gateway-process.ts'

export const TOKEN = 'a-token-for-the-tests-of-the-console-0123456789'

/** For what a page waits, also on a busy machine. */
const WAIT_MS_MAX = 60_000

export const screens = [
  ...['now', 'limited', 'client', 'limits', 'change', 'versions', 'explain'],
  ...['stores', 'upstreams', 'regions', 'audit', 'tokens', 'switch'],
] as const

export interface ConsoleService {
  readonly adminUrl: string
  readonly service: PolicyService
  /** Sends a request to the gateway as a client with this address. */
  ask(ip: string, path?: string): Promise<number>
  call(method: string, path: string, body?: object, headers?: object): Promise<Answer>
  tokenFor(role: Role): Promise<string>
  stop(): Promise<void>
}

export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Builds the console if its sources have changed. */
export function buildConsole(): void {
  const root = join(import.meta.dirname, '../../..')
  execFileSync(join(root, 'run.sh'), ['build', 'console'], { stdio: 'ignore' })
}

export async function startConsoleService(policy: object, adminPort = 0): Promise<ConsoleService> {
  const backend = await startBackend()
  const folder = makeFolder()
  const file = join(folder, 'tidegate.yaml')
  const gateway = {
    listen: { host: '127.0.0.1', port: 0 },
    trustProxy: ['127.0.0.1'],
    timeouts: { unready: '10ms', drain: '1s' },
    overload: { delay: '1m', requestsMax: 100_000 },
  }
  const sections = {
    gateway,
    upstreams: { api: { targets: [backend.url] } },
    admin: { listen: { port: adminPort }, token: { env: 'TOKEN' } },
  }
  writeFileSync(file, JSON.stringify({ ...sections, ...policy }))
  const environment = { TOKEN }
  const config = await readPolicyConfig(file, environment, { program: 'tidegate 1.2.3' })
  const service = await startPolicyService({
    config,
    environment,
    emit: () => undefined,
    version: '1.2.3',
    parts: sectionParts(config, { instance: undefined }),
  })
  const adminUrl = `http://127.0.0.1:${service.admin?.address.port}`
  const call: ConsoleService['call'] = async (method, path, body, headers = {}) => {
    const response = await fetch(`${adminUrl}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${TOKEN}`,
        'content-type': 'application/json',
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Answer['body'] }
  }
  return {
    adminUrl,
    service,
    call,
    async ask(ip, path = '/') {
      const headers = { 'x-forwarded-for': ip }
      const response = await fetch(`${service.gateway?.url}${path}`, { headers })
      await response.arrayBuffer()
      return response.status
    },
    async tokenFor(role) {
      const body = { name: `test ${role}`, role, for: '1h', why: 'a test' }
      return String((await call('POST', '/v1/tokens', body)).body.token)
    },
    async stop() {
      await service.close()
      await backend.stop()
      removeFolder(folder)
    },
  }
}

/** Undefined if there is no browser. */
export async function startBrowser(): Promise<Browser | undefined> {
  const executablePath = chromiumBinary()
  if (executablePath === undefined) return undefined
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

export interface OpenConsole {
  readonly page: Page
  readonly context: BrowserContext
  /** Errors of the page, reports of its policy, and requests to other hosts. */
  readonly complaints: string[]
  goTo(screen: string): Promise<void>
}

/** A page that is logged in. */
export async function openConsole(
  browser: Browser,
  adminUrl: string,
  token: string,
  options: Parameters<Browser['newContext']>[0] = {},
): Promise<OpenConsole> {
  const context = await browser.newContext({ viewport: { width: 1_440, height: 900 }, ...options })
  context.setDefaultTimeout(WAIT_MS_MAX)
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('request', (request) => {
    if (!request.url().startsWith(adminUrl)) complaints.push(`asked ${request.url()}`)
  })
  await page.goto(`${adminUrl}/console/#token=${token}`)
  // The log-in has a heading, too; the navigation comes with the session.
  await page.waitForSelector('nav a', { state: 'attached' })
  const goTo = async (screen: string) => {
    await page.goto(`${adminUrl}/console/#/${screen}`)
    await page.waitForSelector(`nav a[aria-current][href="#/${screen}"]`, { state: 'attached' })
    await page.waitForSelector('main .panel, main .needs, main .empty')
  }
  return { page, context, complaints, goTo }
}

/** Problems of accessibility, each with the first element that has it. */
export async function axeComplaints(page: Page, screen: string): Promise<string[]> {
  // The page has no frames, for which the other mode opens another page.
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze()
  return violations.map(({ id, nodes }) => `${screen}: ${id} ${nodes[0]?.html}`)
}

/** The times of tasks above 50 ms while `run` runs, in milliseconds. */
export async function longestTasks(
  page: Page,
  run: () => Promise<void>,
): Promise<readonly string[]> {
  // As a text: the types of Node.js do not have long tasks.
  await page.evaluate(`
    globalThis.tasks = []
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) globalThis.tasks.push(duration)
    }).observe({ type: 'longtask' })
  `)
  await run()
  const tasks = await page.evaluate<number[]>('globalThis.tasks')
  return tasks.sort((one, other) => other - one).map((ms) => `${Math.round(ms)} ms`)
}
