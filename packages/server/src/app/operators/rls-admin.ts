/** The listener for operators of a rate limit service with Envoy's files. */

import type { AdminAccess } from '../../admin/admin-api.ts'
import { type AdminOptions, refuseOpenAdmin, startAdmin } from '../../admin/admin-listener.ts'
import { secretReader } from '../../config/secrets.ts'
import { readTlsFile } from '../../config/tls-files.ts'
import type { ListenerTls, RunningListener } from '../../http-api/listener.ts'
import type { Digest } from '../../observability/digests.ts'
import type { Emit } from '../../observability/events.ts'
import type { TopLists } from '../../observability/top/top-lists.ts'
import type { AdminTlsFiles, RlsAdminSettings } from '../../rls/environment/admin-settings.ts'
import type { ControlRoom } from '../control-room.ts'
import { checkedToken } from './admin-access.ts'

export interface RlsAdminParts {
  readonly room: ControlRoom
  /** The version of the program. */
  readonly version: string
  readonly emit: Emit
  readonly top: TopLists | undefined
  readonly digest: Digest
  readonly metrics: NonNullable<AdminOptions['metrics']>
  status(): object
  isReady(): boolean
}

/** Throws if a credential cannot be used, or if tokens would travel in the clear. */
export function startRlsAdmin(
  settings: RlsAdminSettings,
  { room, version, emit, top, digest, metrics, status, isReady }: RlsAdminParts,
): Promise<RunningListener> {
  const { host, port, tls } = settings
  const access = accessOf(settings)
  const hasApi = hasCredential(settings)
  const names = { host: 'TIDEGATE_ADMIN_HOST', tls: 'TIDEGATE_ADMIN_TLS_CERT' }
  refuseOpenAdmin(host, tls !== undefined, hasApi, names)
  const sessionSecret = access.bootstrapToken
  const lists = top?.read.bind(top)
  const none = { console: undefined, keys: () => undefined }
  const parts = { version, status, top: lists, digest, sessionSecret, ...none }
  return startAdmin({
    host,
    port,
    tls: tls && contentsOf(tls),
    api: hasApi ? { context: room.context(parts), access } : undefined,
    metrics,
    status,
    isReady,
    onError: (error) => emit({ type: 'error', error }),
  })
}

/** True if the settings have a credential, so that the listener serves the admin API. */
export function hasCredential({ token, tokenFile, certificates }: RlsAdminSettings): boolean {
  return token !== undefined || tokenFile !== undefined || Object.keys(certificates).length > 0
}

const FILE_VARIABLE = 'TIDEGATE_ADMIN_TOKEN_FILE'

/** Throws if its file cannot be read. */
export function firstToken({ token, tokenFile }: RlsAdminSettings): string | undefined {
  return token ?? (tokenFile && secretReader({}, '')({ file: tokenFile }, FILE_VARIABLE))
}

function accessOf(settings: RlsAdminSettings): AdminAccess {
  const { token, certificates, hosts } = settings
  const place = token === undefined ? FILE_VARIABLE : 'TIDEGATE_ADMIN_TOKEN'
  const text = firstToken(settings)
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
