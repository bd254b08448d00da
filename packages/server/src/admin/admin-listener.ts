/**
 * The listener for operators: `/status`, `/health`, `/ready` and `/metrics`, and the admin API if
 * there is a credential for it.
 */

import { isIP } from 'node:net'
import type { ConnectionSource } from '../http-api/handed-connections.ts'
import { type ListenerTls, listen, type RunningListener } from '../http-api/listener.ts'
import { type ApiRequest, type ApiResponse, jsonResponse } from '../http-api/messages.ts'
import { type Methods, router } from '../http-api/router.ts'
import { type AdminAccess, adminApi } from './admin-api.ts'
import type { AdminContext } from './route.ts'

export interface AdminOptions {
  readonly host: string
  readonly port: number
  readonly tls?: ListenerTls | undefined
  readonly connections?: ConnectionSource | undefined
  /** Undefined without any credential: then only the pages are served. */
  readonly api: { readonly context: AdminContext; readonly access: AdminAccess } | undefined
  /** The page of metrics, in the format that the header `Accept` asks for. */
  readonly metrics?: (accept: string | undefined) => Promise<ApiResponse>
  status(): object
  isReady(): boolean
  onError(error: unknown): void
}

export function startAdmin(options: AdminOptions): Promise<RunningListener> {
  const { api, metrics, onError } = options
  const ready = () => {
    const isReady = options.isReady()
    return indented(isReady ? 200 : 503, { status: isReady ? 'ready' : 'not ready' })
  }
  const pages: Readonly<Record<string, Methods>> = {
    '/health': { GET: () => indented(200, { status: 'ok' }) },
    '/ready': { GET: ready },
    ...(metrics !== undefined && {
      '/metrics': { GET: ({ headers }: ApiRequest) => metrics(headers.accept) },
    }),
    '/status': { GET: () => indented(200, options.status()) },
  }
  const handler =
    api === undefined
      ? router({ routes: pages })
      : adminApi({ ...api, publicRoutes: pages, onError })
  return listen(handler, options)
}

/**
 * Throws if the admin API could be reached from other machines without TLS: tokens would travel in
 * the clear. Pages without the API may be reached, as probes need them.
 */
export function refuseOpenAdmin(
  host: string,
  hasTls: boolean,
  hasApi: boolean,
  names = { host: 'admin.listen.host', tls: 'admin.tls' },
): void {
  if (!hasApi || hasTls || isLoopback(host)) return
  const advice = `add ${names.tls}, or listen on 127.0.0.1`
  throw new Error(
    `${names.host}: ${host} is reached from other machines, and tokens would travel in the ` +
      `clear; ${advice}`,
  )
}

function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}

/** For people with curl. */
function indented(status: number, body: object): ApiResponse {
  return jsonResponse(status, `${JSON.stringify(body, null, 2)}\n`)
}
