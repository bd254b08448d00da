/** Calls of the admin API, with the cookie of the session. Every refusal is an `ApiProblem`. */

import { signal } from '@preact/signals'

export type Role = 'read' | 'operate' | 'admin'

export interface Session {
  readonly name: string
  readonly role: Role
}

/** Undefined until it is known, null without a session. */
export const session = signal<Session | null | undefined>(undefined)

export class ApiProblem extends Error {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>

  constructor(status: number, body: Readonly<Record<string, unknown>>) {
    super(typeof body.detail === 'string' ? body.detail : `The server responded with ${status}.`)
    this.status = status
    this.body = body
  }
}

export interface CallOptions {
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
}

const DEADLINE_MS = 10_000

export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const response = await send(method, path, options)
  const body = await response.json().catch(() => ({}))
  if (response.ok) return body as T
  // Further requests with an ended session would count as wrong credentials.
  if (response.status === 401) session.value = null
  throw new ApiProblem(response.status, body)
}

async function send(method: string, path: string, { body, headers }: CallOptions) {
  const type = body === undefined ? undefined : { 'content-type': 'application/json' }
  try {
    return await fetch(`..${path}`, {
      method,
      credentials: 'same-origin',
      headers: { ...type, ...headers },
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  } catch {
    throw new ApiProblem(0, { detail: 'The server does not answer. Nothing was changed for sure.' })
  }
}

export async function logIn(token: string): Promise<void> {
  const headers = { authorization: `Bearer ${token.trim()}` }
  session.value = await call<Session>('POST', '/v1/session', { headers })
}

export async function logOut(): Promise<void> {
  await call('DELETE', '/v1/session').catch(() => undefined)
  session.value = null
}

/** Finds out whether there is a session. A server that is away leaves it unknown. */
export async function findSession(): Promise<void> {
  try {
    session.value = await call<Session>('GET', '/v1/session')
  } catch {
    // The status 401 has set it to null.
  }
}

const order: readonly Role[] = ['read', 'operate', 'admin']

export function mayDo(needed: Role): boolean {
  return order.indexOf(session.value?.role ?? 'read') >= order.indexOf(needed)
}
