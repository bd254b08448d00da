/** What tests of the admin API share: a service with a policy and credentials of every role. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { makeFolder, removeFolder } from '../../../../test/support/servers/server-process.ts'
import { readPolicyConfig } from '../app/policy-config.ts'
import { type PolicyService, startPolicyService } from '../app/policy-service.ts'
import type { Role } from '../control/roles.ts'
import type { ServiceEvent } from '../observability/events.ts'
import { routeTable } from './route-table.ts'

export const BOOTSTRAP = 'bootstrap-token-of-the-tests-0123456789'

export const policyText = `
upstreams: { api: { targets: ['http://127.0.0.1:9'] } }
tiers: { names: [free, premium], default: free }
limits:
  - { name: api, key: organisation, otherwise: skip, limit: 2, per: 1h }
  - { name: pair, key: [organisation, method], otherwise: skip, limit: 9, per: 1h }
`

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON. */
  readonly body: Record<string, unknown>
}

export interface CallOptions {
  /** A token; undefined sends none. */
  readonly token?: string | undefined
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface TestService {
  readonly url: string
  readonly service: PolicyService
  readonly events: readonly ServiceEvent[]
  readonly folder: string
  /** Calls with the bootstrap token, unless another one is given. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  tokenFor(role: Role): Promise<string>
}

export interface TestServiceOptions {
  readonly admin?: object
  readonly policy?: string
  readonly parts?: Partial<Parameters<typeof startPolicyService>[0]['parts']>
}

export async function startAdminService(options: TestServiceOptions = {}): Promise<TestService> {
  const folder = makeFolder()
  onTestFinished(() => removeFolder(folder))
  const file = join(folder, 'tidegate.yaml')
  const admin = options.admin ?? { token: { env: 'ADMIN_TOKEN' } }
  const section = JSON.stringify({ listen: { port: 0 }, ...admin })
  writeFileSync(file, `${options.policy ?? policyText}\nadmin: ${section}\n`)
  const environment = { ADMIN_TOKEN: BOOTSTRAP }
  const events: ServiceEvent[] = []
  const service = await startPolicyService({
    config: await readPolicyConfig(file, environment, { program: 'tidegate 1.2.3' }),
    environment,
    emit: (event) => void events.push(event),
    version: '1.2.3',
    parts: { gateway: undefined, apis: true, rateLimitService: undefined, ...options.parts },
  })
  onTestFinished(() => service.close())
  const url = `http://127.0.0.1:${service.admin?.address.port}`
  const call: TestService['call'] = async (method, path, asked = {}) => {
    const token = 'token' in asked ? asked.token : BOOTSTRAP
    return described(method, path, await send(`${url}${path}`, method, { ...asked, token }))
  }
  const tokenFor = async (role: Role) => {
    const body = { name: `test ${role}`, role, for: '1h', why: 'a test' }
    return String((await call('POST', '/v1/tokens', { body })).body.token)
  }
  return { url, service, events, folder, call, tokenFor }
}

/** Fails the test if a success does not have the form that the OpenAPI document describes. */
function described(method: string, path: string, answer: Answer): Answer {
  const [pathname = ''] = path.split('?')
  const route = routeTable.find((one) => {
    const pattern = one.path.replace(/\{\w+\}/g, '[^/]+')
    return one.method === method && new RegExp(`^${pattern}$`).test(pathname)
  })
  if (answer.status !== 200 || route?.response === undefined) return answer
  const { error } = route.response.safeParse(JSON.parse(answer.text))
  if (error !== undefined) throw new Error(`${method} ${path}: ${error.message}\n${answer.text}`)
  return answer
}

async function send(url: string, method: string, options: CallOptions): Promise<Answer> {
  const { token, body, headers } = options
  const response = await fetch(url, {
    method,
    headers: {
      ...(token === undefined ? undefined : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? undefined : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined
      ? undefined
      : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await textOf(response)
  return { status: response.status, headers: response.headers, text, body: parsed(text) }
}

/** A stream has no end: its first chunk. */
async function textOf(response: Response): Promise<string> {
  if (response.headers.get('content-type') !== 'text/event-stream') return response.text()
  const reader = response.body?.getReader()
  const chunk = await reader?.read()
  await reader?.cancel()
  return new TextDecoder().decode(chunk?.value)
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
