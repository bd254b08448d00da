/** A service with all doors in this process, for tests of its metrics. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MetricFamily } from 'tidegate/metrics'
import { onTestFinished } from 'vitest'
import { readPolicyConfig } from '../../../packages/server/src/app/policy-config.ts'
import { sectionParts } from '../../../packages/server/src/app/policy-parts.ts'
import {
  type PolicyService,
  startPolicyService,
} from '../../../packages/server/src/app/policy-service.ts'
import type { Emit } from '../../../packages/server/src/observability/events.ts'
import { freePort } from '../../support/servers/ports.ts'
import { makeFolder, removeFolder } from '../../support/servers/server-process.ts'
import { startBackend } from '../cli/gateway-process.ts'

/** Sheds nothing. */
export const overload = { delay: '1m', requestsMax: 100_000 }

export const TOKEN = 'a-token-for-the-tests-of-metrics-0123456789'

export interface MeteredService {
  readonly service: PolicyService
  readonly port: number
  readonly adminUrl: string
  readonly apiUrl: string
  /** The HTTP port of the rate limit service. */
  readonly rlsUrl: string
  /** Writes another policy. */
  write(policy: object): void
  /** Sends a request to the gateway and returns the status. */
  ask(path: string, headers?: Readonly<Record<string, string>>): Promise<number>
  check(body: object, headers?: Readonly<Record<string, string>>): Promise<void>
  /** Asks the rate limit service, as JSON. */
  askRls(
    entries: Readonly<Record<string, string>>,
    headers?: Readonly<Record<string, string>>,
  ): Promise<void>
  page(accept?: string): Promise<string>
  /** Every family, also those without series. */
  families(): Promise<readonly MetricFamily[]>
}

/** Closed when the test ends. */
export async function startMeteredService(
  policy: object,
  variables: Readonly<Record<string, string>> = {},
  emit: Emit = () => undefined,
): Promise<MeteredService> {
  const backend = await startBackend()
  onTestFinished(() => backend.stop())
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const file = join(folder, 'tidegate.yaml')
  const at = { host: '127.0.0.1', port: 0 }
  const httpPort = await freePort()
  const sections = {
    // On a busy machine, requests would be shed without a decision.
    gateway: { listen: at, overload, timeouts: { unready: '10ms', drain: '2s' } },
    upstreams: { api: { targets: [backend.url] } },
    decisionApi: { listen: at, token: { env: 'TOKEN' } },
    rateLimitService: { listen: at, http: { host: '127.0.0.1', port: httpPort } },
    admin: { listen: { port: 0 }, token: { env: 'TOKEN' } },
  }
  const write = (own: object) => writeFileSync(file, JSON.stringify({ ...sections, ...own }))
  write(policy)
  const environment = { TOKEN, ...variables }
  const config = await readPolicyConfig(file, environment, { program: 'tidegate 1.2.3' })
  let families: MeteredService['families'] = async () => []
  const service = await startPolicyService({
    config,
    environment,
    emit,
    version: '1.2.3',
    parts: sectionParts(config, { instance: undefined }),
    pageOfAll: (own) => {
      families = own
      return own
    },
  })
  onTestFinished(() => service.close())
  const adminUrl = `http://127.0.0.1:${service.admin?.address.port}`
  const apiUrl = `http://127.0.0.1:${service.decisionApi?.address.port}`
  const json = async (url: string, body: object, others: object = {}) => {
    const type = { 'content-type': 'application/json' }
    const headers = { authorization: `Bearer ${TOKEN}`, ...type, ...others }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    await (await fetch(url, init)).arrayBuffer()
  }
  return {
    service,
    port: service.gateway?.port ?? 0,
    adminUrl,
    apiUrl,
    rlsUrl: `http://127.0.0.1:${httpPort}`,
    write,
    async ask(path, headers = {}) {
      const response = await fetch(`${service.gateway?.url}${path}`, { headers })
      await response.arrayBuffer()
      return response.status
    },
    check: (body, headers) => json(`${apiUrl}/v1/check`, body, headers),
    askRls: (entries, headers) => {
      const list = Object.entries(entries).map(([key, value]) => ({ key, value }))
      const body = { domain: 'shop', descriptors: [{ entries: list }] }
      return json(`http://127.0.0.1:${httpPort}/json`, body, headers)
    },
    page: async (accept = 'text/plain') =>
      (await fetch(`${adminUrl}/metrics`, { headers: { accept } })).text(),
    families: () => families(),
  }
}

/** The samples of a page, by name and labels. */
export function samplesOf(page: string): ReadonlyMap<string, number> {
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))] as const
    }),
  )
}
