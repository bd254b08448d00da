/** The listener for operators of a rate limit service with Envoy's files. */

import type { AdminAccess } from '../../admin/admin-api.ts'
import { refuseOpenAdmin, startAdmin } from '../../admin/admin-listener.ts'
import { secretReader } from '../../config/secrets.ts'
import { readTlsFile } from '../../config/tls-files.ts'
import type { ListenerTls, RunningListener } from '../../http-api/listener.ts'
import type { Emit } from '../../observability/events.ts'
import type { AdminTlsFiles, RlsAdminSettings } from '../../rls/environment/admin-settings.ts'
import type { ControlRoom } from '../control-room.ts'
import { checkedToken } from './admin-access.ts'

export interface RlsAdminParts {
  readonly room: ControlRoom
  /** The version of the program. */
  readonly version: string
  readonly emit: Emit
  status(): object
  isReady(): boolean
}

/** Throws if a credential cannot be used, or if tokens would travel in the clear. */
export function startRlsAdmin(
  settings: RlsAdminSettings,
  { room, version, emit, status, isReady }: RlsAdminParts,
): Promise<RunningListener> {
  const { host, port, tls } = settings
  const access = accessOf(settings)
  const hasApi = hasCredential(settings)
  const names = { host: 'TIDEGATE_ADMIN_HOST', tls: 'TIDEGATE_ADMIN_TLS_CERT' }
  refuseOpenAdmin(host, tls !== undefined, hasApi, names)
  return startAdmin({
    host,
    port,
    tls: tls && contentsOf(tls),
    api: hasApi
      ? { context: room.context({ version, status, top: undefined }), access }
      : undefined,
    status,
    isReady,
    onError: (error) => emit({ type: 'error', error }),
  })
}

/** True if the settings have a credential, so that the listener serves the admin API. */
export function hasCredential({ token, tokenFile, certificates }: RlsAdminSettings): boolean {
  return token !== undefined || tokenFile !== undefined || Object.keys(certificates).length > 0
}

function accessOf({ token, tokenFile, certificates, hosts }: RlsAdminSettings): AdminAccess {
  const fileVariable = 'TIDEGATE_ADMIN_TOKEN_FILE'
  const read = tokenFile && secretReader({}, '')({ file: tokenFile }, fileVariable)
  const place = token === undefined ? fileVariable : 'TIDEGATE_ADMIN_TOKEN'
  const text = token ?? read
  return {
    bootstrapToken: text === undefined ? undefined : checkedToken(text, place),
    certificateRoles: certificates,
    hosts: hosts.map((name) => name.toLowerCase()),
  }
}

function contentsOf({ cert, key, clientCa }: AdminTlsFiles): ListenerTls {
  return {
    cert: readTlsFile(cert, ''),
    key: readTlsFile(key, ''),
    clientCa: clientCa === undefined ? undefined : readTlsFile(clientCa, ''),
  }
}
