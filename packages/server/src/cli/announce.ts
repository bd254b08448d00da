/** The lines that a service prints when it has started. */

import { hasAdminApi } from '../app/operators/admin-access.ts'
import type { PolicyService } from '../app/policy-service.ts'
import type { PolicyDocument } from '../policy/schema/policy-schema.ts'
import type { Terminal } from './terminal.ts'

export function announce(
  service: PolicyService,
  document: PolicyDocument,
  terminal: Terminal,
): void {
  const lines = [...listenerLines(service, document), ...storeLines(service, document)]
  if (!document.enabled) lines.push('limiting is turned off: everything is admitted')
  terminal.stderr(lines.map((line) => `tidegate: ${line}\n`).join(''))
}

function listenerLines(service: PolicyService, document: PolicyDocument): string[] {
  const { upstreams } = document
  const { gateway, decisionApi, rateLimitService, admin } = service
  const lines: string[] = []
  if (gateway !== undefined) {
    const targets = Object.values(upstreams).flatMap((upstream) => upstream.targets)
    const behind = targets.join(', ') || 'no upstream: the response to every request is 404'
    const { host, url } = gateway
    lines.push(`gateway: ${isAny(host) ? `${url}, on all addresses` : url} → ${behind}`)
  }
  if (decisionApi !== undefined) lines.push(`decision API: ${placeOf(decisionApi.address)}`)
  const grpc = rateLimitService?.addresses.grpc
  if (grpc !== undefined) {
    lines.push(`rate limit service: ${'path' in grpc ? grpc.path : placeOf(grpc)}`)
  }
  if (admin !== undefined) {
    const what = hasAdminApi(document.admin) ? 'admin API' : 'status'
    lines.push(`${what}: ${placeOf(admin.address)}`)
  }
  return lines
}

function storeLines({ store }: PolicyService, document: PolicyDocument): string[] {
  const isMemory = document.store.mode === 'memory'
  const note = isMemory ? ' (Redis is not configured; each process counts for itself)' : ''
  const lines = [`counters: ${store.description}${note}`]
  if (!store.isConnected()) {
    lines.push('Redis does not answer: until it does, onStoreError of each limit decides')
  }
  return lines
}

function placeOf({ host, port }: { readonly host: string; readonly port: number }): string {
  if (isAny(host)) return `port ${port}, on all addresses`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

/** Whether a listener on this host can be reached at every address of the machine. */
function isAny(host: string): boolean {
  return host === '::' || host === '0.0.0.0'
}
