/**
 * The settings of the rate limit service, with their defaults, and how they are read from the
 * environment variables of the reference.
 */

import { join } from 'node:path'
import { type Charging, chargings } from '../limits/charging/charge-group.ts'
import type { LogLevel } from '../observability/log-level.ts'
import { type LogFormat, logFormats } from '../observability/logger.ts'
import type { StoreSettings } from '../stores/create-store.ts'
import { type StoreErrorMode, storeErrorModes } from './config/rule.ts'
import { adminSettings, type RlsAdminSettings } from './environment/admin-settings.ts'
import { controlSettings, type RlsControlSettings } from './environment/etcd-settings.ts'
import { logDefaults, logSettings, type RlsLogSettings } from './environment/log-settings.ts'
import { type Environment, refused, Variables } from './environment/read-variable.ts'
import { redisSettings } from './environment/redis-settings.ts'
import { variables as known } from './environment/variables.ts'
import type { ListenAddress, TlsFiles } from './rpc.ts'

export interface RlsSettings {
  /** The directory of the configuration files. */
  readonly configDirectory: string
  /** True if files and folders whose names begin with a dot are ignored. */
  readonly ignoresDotFiles: boolean
  readonly mergesDomains: boolean
  readonly needsConfigToBeHealthy: boolean
  readonly calendarMonths: boolean

  readonly grpc: ListenAddress
  readonly http: { readonly host: string; readonly port: number } | undefined
  readonly debug: { readonly host: string; readonly port: number } | undefined
  /** A separate listener for `/metrics`; the debug port also has it. */
  readonly prometheus: PrometheusSettings | undefined
  readonly tls: TlsFiles | undefined
  readonly transport: Transport
  readonly connectionAgeMs: number
  readonly connectionAgeGraceMs: number
  readonly keepAliveMs: number
  readonly frameMs: number
  readonly connectionsMax: number
  readonly streamsMax: number
  /** How long `close` waits for calls to end. */
  readonly drainMs: number
  /** How long the service reports unhealthy before it closes listeners, for load balancers. */
  readonly unhealthyMs: number

  readonly store: StoreSettings
  readonly perSecondStore: StoreSettings | undefined
  /** Part of every key. */
  readonly keyPrefix: string
  readonly storeDeadlineMs: number
  readonly onStoreError: StoreErrorMode
  readonly charging: Charging
  /** The event-loop delay, in every turn, above which calls are refused. */
  readonly overloadDelayMs: number
  /** The maximum of calls in flight. */
  readonly callsMax: number

  readonly isShadowMode: boolean
  readonly isQuotaMode: boolean
  readonly nearLimitRatio: number
  readonly headerNames: readonly [limit: string, remaining: string, reset: string] | undefined
  readonly hasDynamicMetadata: boolean

  readonly logLevel: LogLevel
  readonly logFormat: LogFormat
  readonly log: RlsLogSettings

  /** Follows files that are published in etcd, instead of those of the directory. */
  readonly control: RlsControlSettings | undefined
  /** The listener for operators. */
  readonly admin: RlsAdminSettings | undefined
}

export const transports = ['own', 'node'] as const

export type Transport = (typeof transports)[number]

export interface PrometheusSettings {
  readonly host: string
  readonly port: number
  readonly path: string
}

/** The settings that do not depend on Envoy's YAML and its stores. */
export type RlsServerSettings = Omit<
  RlsSettings,
  | 'configDirectory'
  | 'ignoresDotFiles'
  | 'mergesDomains'
  | 'store'
  | 'perSecondStore'
  | 'log'
  | 'control'
  | 'admin'
>

const HOUR_MS = 3_600_000

export const rlsDefaults: Omit<RlsSettings, 'configDirectory'> = {
  ignoresDotFiles: false,
  mergesDomains: false,
  needsConfigToBeHealthy: false,
  calendarMonths: false,
  grpc: { host: '0.0.0.0', port: 8081 },
  http: { host: '0.0.0.0', port: 8080 },
  debug: { host: '127.0.0.1', port: 6070 },
  prometheus: undefined,
  tls: undefined,
  transport: 'own',
  connectionAgeMs: 24 * HOUR_MS,
  connectionAgeGraceMs: HOUR_MS,
  keepAliveMs: 60_000,
  // A TLS handshake and the first frame take a few round trips, a frame of 16 KB one.
  frameMs: 10_000,
  connectionsMax: 4_096,
  streamsMax: 1_024,
  drainMs: 10_000,
  unhealthyMs: 0,
  store: { mode: 'memory', addresses: [] },
  perSecondStore: undefined,
  keyPrefix: '',
  // Envoy waits for 20 ms. If the event loop is late, the store gets 5 ms more. The rest is for
  // that delay and the network.
  storeDeadlineMs: 8,
  onStoreError: 'error',
  charging: 'all-or-nothing',
  // Envoy waits for 20 ms by default. If the loop is 50 ms late in every turn, nearly all responses
  // are too late.
  overloadDelayMs: 50,
  // The calls of 0.1 s at the limit of a process: responses to more would be late.
  callsMax: 10_000,
  isShadowMode: false,
  isQuotaMode: false,
  nearLimitRatio: 0.8,
  headerNames: undefined,
  hasDynamicMetadata: false,
  logLevel: 'warn',
  logFormat: 'text',
  log: logDefaults,
  control: undefined,
  admin: undefined,
}

export interface EnvironmentSettings {
  readonly settings: RlsSettings
  /** One line for each variable that is set and has no effect, or an unexpected one. */
  readonly notes: readonly string[]
}

/** Timers of Node are limited to 24 days, and an age varies by 10 %. */
const AGE_MS_MAX = 20 * 86_400_000

/** Levels of Go's loggers, mapped to those of Tidegate. */
const levelNames: Readonly<Record<string, LogLevel>> = {
  trace: 'debug',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  warning: 'warn',
  error: 'error',
  fatal: 'error',
  panic: 'error',
}

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/

/**
 * Throws an error that names the variable, its value and the allowed values. `hasPolicy` is true if
 * limits and store come from a policy.
 */
export function rlsSettings(environment: Environment, hasPolicy = false): EnvironmentSettings {
  const variables = new Variables(environment)
  variables.oneOf('CONFIG_TYPE', 'FILE', ['FILE'])
  variables.oneOf('BACKEND_TYPE', 'redis', ['redis'])
  const store = redisSettings(variables, 'REDIS_')
  const settings: RlsSettings = {
    ...rlsDefaults,
    ...configurationOf(variables),
    ...listenersOf(variables),
    ...responsesOf(variables),
    ...(store === undefined ? undefined : { store }),
    perSecondStore: perSecondStoreOf(variables),
    keyPrefix: variables.text('CACHE_KEY_PREFIX') ?? '',
    storeDeadlineMs: deadlineMsOf(variables),
    onStoreError: variables.oneOf('TIDEGATE_ON_STORE_ERROR', 'error', storeErrorModes),
    charging: variables.oneOf('TIDEGATE_CHARGE', rlsDefaults.charging, chargings),
    overloadDelayMs: overloadDelayMsOf(variables),
    log: logSettings(variables),
    control: controlSettings(variables),
    admin: adminSettings(variables),
  }
  const notes = [...known].flatMap(([name, { state, text, silent }]) => {
    const value = variables.text(name)
    const isQuiet = state === 'supported' || state === 'mapped'
    if (isQuiet || value === undefined || value === silent) return []
    return [`${name} has no effect: ${text}`]
  })
  if (hasPolicy && settings.log.digestSecret !== undefined) {
    notes.push('TIDEGATE_DIGEST_SECRET has no effect: the section digests of the policy is used')
  }
  if (hasPolicy && settings.admin !== undefined) {
    notes.push('TIDEGATE_ADMIN_PORT has no effect: the section admin of the policy is used')
  }
  if (hasPolicy && store !== undefined) {
    notes.push('REDIS_URL has no effect: the section store of the policy is used')
  } else if (!hasPolicy && store === undefined) {
    notes.push('REDIS_URL is not set: counters are kept in the memory of this process')
  }
  return { settings, notes }
}

function configurationOf(variables: Variables) {
  return {
    configDirectory: join(
      variables.text('RUNTIME_ROOT') ?? '/srv/runtime_data/current',
      variables.text('RUNTIME_SUBDIRECTORY') ?? '',
      variables.text('RUNTIME_APPDIRECTORY') ?? 'config',
    ),
    ignoresDotFiles: variables.flag('RUNTIME_IGNOREDOTFILES'),
    mergesDomains: variables.flag('MERGE_DOMAIN_CONFIG'),
    needsConfigToBeHealthy: variables.flag('HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED'),
    calendarMonths: variables.flag('USE_CALENDAR_MONTH_RATE_LIMIT'),
  }
}

function listenersOf(variables: Variables) {
  return {
    grpc: grpcOf(variables),
    http: { host: variables.text('HOST') ?? '0.0.0.0', port: variables.port('PORT', 8080) },
    debug: {
      host: variables.text('DEBUG_HOST') ?? '127.0.0.1',
      port: variables.port('DEBUG_PORT', 6070),
    },
    prometheus: prometheusOf(variables),
    tls: tlsOf(variables),
    transport: variables.oneOf('TIDEGATE_TRANSPORT', 'own', transports),
    connectionAgeMs: ageMs(variables, 'GRPC_MAX_CONNECTION_AGE', rlsDefaults.connectionAgeMs),
    connectionAgeGraceMs: ageMs(
      variables,
      'GRPC_MAX_CONNECTION_AGE_GRACE',
      rlsDefaults.connectionAgeGraceMs,
    ),
    keepAliveMs: variables.durationMs('TIDEGATE_KEEPALIVE', rlsDefaults.keepAliveMs),
    unhealthyMs: variables.durationMs('TIDEGATE_UNHEALTHY', rlsDefaults.unhealthyMs),
    drainMs: variables.durationMs('TIDEGATE_DRAIN', rlsDefaults.drainMs),
    logLevel: logLevelOf(variables),
    logFormat: variables.oneOf('LOG_FORMAT', 'text', logFormats),
  }
}

function grpcOf(variables: Variables): ListenAddress {
  const path = variables.text('GRPC_UDS')
  if (path !== undefined) return { path }
  return { host: variables.text('GRPC_HOST') ?? '0.0.0.0', port: variables.port('GRPC_PORT', 8081) }
}

function prometheusOf(variables: Variables): RlsSettings['prometheus'] {
  if (!variables.flag('USE_PROMETHEUS')) return undefined
  const address = variables.text('PROMETHEUS_ADDR') ?? ':9090'
  const path = variables.text('PROMETHEUS_PATH') ?? '/metrics'
  const [, host = '', port = ''] = /^(\[[0-9a-fA-F:.]+\]|[^:]*):(\d{1,5})$/.exec(address) ?? []
  if (port === '' || Number(port) > 65_535) {
    throw refused('PROMETHEUS_ADDR', address, 'host:port or :port')
  }
  if (!path.startsWith('/')) throw refused('PROMETHEUS_PATH', path, 'a path such as /metrics')
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  return { host: bare === '' ? '0.0.0.0' : bare, port: Number(port), path }
}

function tlsOf(variables: Variables): TlsFiles | undefined {
  if (!variables.flag('GRPC_SERVER_USE_TLS')) return undefined
  const cert = variables.text('GRPC_SERVER_TLS_CERT')
  const key = variables.text('GRPC_SERVER_TLS_KEY')
  if (cert === undefined)
    throw refused('GRPC_SERVER_TLS_CERT', '', 'a file, with GRPC_SERVER_USE_TLS')
  if (key === undefined)
    throw refused('GRPC_SERVER_TLS_KEY', '', 'a file, with GRPC_SERVER_USE_TLS')
  const name = variables.text('GRPC_CLIENT_TLS_SAN')
  const clientCa = variables.text('GRPC_CLIENT_TLS_CACERT')
  if (name !== undefined && clientCa === undefined) {
    throw refused('GRPC_CLIENT_TLS_SAN', name, 'only with GRPC_CLIENT_TLS_CACERT')
  }
  return { cert, key, clientCa, clientNames: name === undefined ? [] : [name] }
}

function ageMs(variables: Variables, name: string, otherwise: number): number {
  const age = variables.durationMs(name, otherwise)
  return age === 0 ? AGE_MS_MAX : Math.min(Math.max(1, Math.round(age)), AGE_MS_MAX)
}

function logLevelOf(variables: Variables): LogLevel {
  const value = variables.text('LOG_LEVEL')
  if (value === undefined) return 'warn'
  const word = value.toLowerCase()
  const level = Object.hasOwn(levelNames, word) ? levelNames[word] : undefined
  if (level !== undefined) return level
  throw refused('LOG_LEVEL', value, 'debug, info, warn or error')
}

function responsesOf(variables: Variables) {
  return {
    isShadowMode: variables.flag('SHADOW_MODE'),
    isQuotaMode: variables.flag('QUOTA_MODE'),
    nearLimitRatio: variables.ratio('NEAR_LIMIT_RATIO', rlsDefaults.nearLimitRatio),
    headerNames: headerNamesOf(variables),
    hasDynamicMetadata: variables.flag('RESPONSE_DYNAMIC_METADATA'),
  }
}

function headerNamesOf(variables: Variables): RlsSettings['headerNames'] {
  if (!variables.flag('LIMIT_RESPONSE_HEADERS_ENABLED')) return undefined
  const header = (name: string, otherwise: string) => {
    const value = variables.text(name) ?? otherwise
    if (HEADER_NAME.test(value)) return value
    throw refused(name, value, 'the name of a header field')
  }
  return [
    header('LIMIT_LIMIT_HEADER', 'RateLimit-Limit'),
    header('LIMIT_REMAINING_HEADER', 'RateLimit-Remaining'),
    header('LIMIT_RESET_HEADER', 'RateLimit-Reset'),
  ]
}

function perSecondStoreOf(variables: Variables): RlsSettings['perSecondStore'] {
  if (!variables.flag('REDIS_PERSECOND')) return undefined
  const store = redisSettings(variables, 'REDIS_PERSECOND_')
  if (store !== undefined) return store
  throw refused('REDIS_PERSECOND_URL', '', 'host:port such as localhost:6379')
}

function overloadDelayMsOf(variables: Variables): number {
  const delayMs = variables.durationMs('TIDEGATE_OVERLOAD_DELAY', rlsDefaults.overloadDelayMs)
  if (delayMs >= 1 && delayMs <= 60_000) return delayMs
  throw refused('TIDEGATE_OVERLOAD_DELAY', `${delayMs} ms`, '1ms to 60s')
}

/** The timeouts of the reference are seconds long, so they apply only if they are shorter. */
function deadlineMsOf(variables: Variables): number {
  const deadlineMs = variables.durationMs('TIDEGATE_DEADLINE', rlsDefaults.storeDeadlineMs)
  if (deadlineMs < 1 || deadlineMs > 60_000) {
    throw refused('TIDEGATE_DEADLINE', `${deadlineMs} ms`, '1ms to 60s')
  }
  const timeoutsMs = ['REDIS_TIMEOUT', 'REDIS_PERSECOND_TIMEOUT'].map((name) =>
    variables.durationMs(name, 0),
  )
  return Math.min(deadlineMs, ...timeoutsMs.filter((timeoutMs) => timeoutMs >= 1))
}
