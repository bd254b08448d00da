/**
 * The environment variables of the reference, and what becomes of each. `docs/envoy-settings.md`
 * has the same as a table; a test compares them.
 */

export const variableStates = ['supported', 'mapped', 'not needed', 'not supported'] as const

export type VariableState = (typeof variableStates)[number]

export interface Variable {
  readonly state: VariableState
  /** What it does here, or why nothing. */
  readonly text: string
  /** For what has no effect: a value of which nothing has to be said. */
  readonly silent?: string
}

const supported = (text: string): Variable => ({ state: 'supported', text })
const mapped = (text: string): Variable => ({ state: 'mapped', text })
const needless = (text: string, silent?: string): Variable => ({
  state: 'not needed',
  text,
  ...(silent === undefined ? undefined : { silent }),
})
const missing = (text: string, silent?: string): Variable => ({
  state: 'not supported',
  text,
  ...(silent === undefined ? undefined : { silent }),
})

const listeners: Readonly<Record<string, Variable>> = {
  HOST: supported('Address of the HTTP port (`/json`, `/healthcheck`). Default `0.0.0.0`.'),
  PORT: supported('The HTTP port. Default 8080.'),
  DEBUG_HOST: supported('Address of the debug port. Default `127.0.0.1`, not `0.0.0.0`.'),
  DEBUG_PORT: supported('The debug port. Default 6070.'),
  GRPC_UDS: supported('A Unix domain socket for gRPC instead of host and port.'),
  GRPC_HOST: supported('Address of the gRPC port. Default `0.0.0.0`.'),
  GRPC_PORT: supported('The gRPC port. Default 8081.'),
  GRPC_MAX_CONNECTION_AGE: supported(
    'Default 24h, spread by 10 %. 0, and more than 20 days, is 20 days.',
  ),
  GRPC_MAX_CONNECTION_AGE_GRACE: supported('Default 1h. 0, and more than 20 days, is 20 days.'),
  GRPC_SERVER_USE_TLS: supported(
    'TLS on the gRPC port; changed files apply to the next handshake.',
  ),
  GRPC_SERVER_TLS_CERT: supported('The file of the certificate chain.'),
  GRPC_SERVER_TLS_KEY: supported('The file of its key.'),
  GRPC_CLIENT_TLS_CACERT: supported('With it, clients need a certificate that it has signed.'),
  GRPC_CLIENT_TLS_SAN: supported('And this name in it.'),
  LOG_LEVEL: supported('`debug`, `info`, `warn` (default) or `error`, and the names that Go has.'),
  LOG_FORMAT: supported('`text` (default) or `json`.'),
}

const configuration: Readonly<Record<string, Variable>> = {
  RUNTIME_ROOT: supported('Default `/srv/runtime_data/current`. `--config-dir` goes before it.'),
  RUNTIME_SUBDIRECTORY: supported('A directory in it.'),
  RUNTIME_APPDIRECTORY: supported('The directory of the files in that. Default `config`.'),
  RUNTIME_IGNOREDOTFILES: supported('Names with two dots, as in a ConfigMap, are always ignored.'),
  RUNTIME_WATCH_ROOT: needless('Both are followed: changes of files, and the swap of a link.'),
  MERGE_DOMAIN_CONFIG: supported('Several files may have the same domain.'),
  CONFIG_TYPE: mapped('Only `FILE`; `GRPC_XDS_SOTW` is refused.'),
  FORCE_START_WITHOUT_INITIAL_CONFIG: needless('It always starts, and fails calls until then.'),
  HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: supported('Unhealthy until there is a domain.'),
  USE_CALENDAR_MONTH_RATE_LIMIT: supported('`unit: month` is a month of the calendar, in UTC.'),
  CONFIG_GRPC_XDS_NODE_ID: missing('Configuration comes from files.', 'default'),
  CONFIG_GRPC_XDS_NODE_METADATA: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_SERVER_URL: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_SERVER_USE_TLS: missing('Configuration comes from files.', 'false'),
  CONFIG_GRPC_XDS_CLIENT_TLS_CERT: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_CLIENT_TLS_KEY: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_SERVER_TLS_CACERT: missing('Configuration comes from files.'),
  CONFIG_GRPC_XDS_SERVER_TLS_SAN: missing('Configuration comes from files.'),
  XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: missing('Configuration comes from files.'),
  XDS_CLIENT_BACKOFF_MAX_INTERVAL: missing('Configuration comes from files.'),
  XDS_CLIENT_BACKOFF_RANDOM_FACTOR: missing('Configuration comes from files.'),
  XDS_CLIENT_BACKOFF_JITTER: missing('Configuration comes from files.', 'true'),
  XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: missing('Configuration comes from files.'),
}

const answers: Readonly<Record<string, Variable>> = {
  SHADOW_MODE: supported('Every call goes on; statuses tell what would have been.'),
  QUOTA_MODE: supported('Every limit is a quota.'),
  LIMIT_RESPONSE_HEADERS_ENABLED: supported('Adds limit, remaining and reset to responses.'),
  LIMIT_LIMIT_HEADER: supported('Default `RateLimit-Limit`.'),
  LIMIT_REMAINING_HEADER: supported('Default `RateLimit-Remaining`.'),
  LIMIT_RESET_HEADER: supported('Default `RateLimit-Reset`.'),
  RESPONSE_DYNAMIC_METADATA: supported('Tells Envoy what was asked, and `metadata` of rules.'),
  NEAR_LIMIT_RATIO: supported('From where hits count as near the limit. Default 0.8.'),
}

const counters: Readonly<Record<string, Variable>> = {
  BACKEND_TYPE: mapped('Only `redis`; `memcache` is refused.'),
  CACHE_KEY_PREFIX: supported('Part of the key of every counter.'),
  LOCAL_CACHE_SIZE_IN_BYTES: needless(
    'Keys known to be over the limit are always remembered.',
    '0',
  ),
  EXPIRATION_JITTER_MAX_SECONDS: needless('A counter expires when it no longer matters.', '300'),
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: needless(
    'A refused call charges nothing; with `TIDEGATE_CHARGE=each` it does.',
    'true',
  ),
}

/** The same for the Redis of per-second limits, with `REDIS_PERSECOND_` in front. */
const redis: Readonly<Record<string, Variable>> = {
  SOCKET_TYPE: supported('`tcp` or `unix`. Default: what the URL is.'),
  TYPE: supported('`SINGLE`, `SENTINEL` or `CLUSTER`.'),
  URL: supported(
    '`host:port`; `master,sentinel,…`; `node,…`; also as `redis://`; the path of a Unix socket.',
  ),
  POOL_SIZE: needless('One connection carries all calls, many in one command.', '10'),
  AUTH: supported('`password` or `user:password`.'),
  SENTINEL_AUTH: supported('The password for the Sentinels.'),
  TLS: supported('TLS to Redis.'),
  PIPELINE_WINDOW: needless('Calls that come together travel together.', '0'),
  PIPELINE_LIMIT: needless('Has no effect in the reference either.', '0'),
  TIMEOUT: mapped('The deadline of a decision, where shorter than TIDEGATE_DEADLINE.'),
  POOL_ON_EMPTY_BEHAVIOR: needless('There is no pool that could be empty.', 'WAIT'),
}

const redisOnly: Readonly<Record<string, Variable>> = {
  REDIS_TLS_CLIENT_CERT: supported('A client certificate, for both.'),
  REDIS_TLS_CLIENT_KEY: supported('Its key.'),
  REDIS_TLS_CACERT: supported('Whom to trust, instead of the usual authorities.'),
  REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: supported('The certificate may be for another name.'),
  REDIS_CLUSTER_PIPELINE_PARALLELISM: needless('All nodes are always asked side by side.', '1'),
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: needless('Without a connection it is always unhealthy.'),
  REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: needless('A demoted server is always left.'),
  REDIS_STARTUP_INITIAL_INTERVAL: needless('It starts at once and connects when Redis is there.'),
  REDIS_STARTUP_MAX_INTERVAL: needless('It starts at once and connects when Redis is there.'),
  REDIS_STARTUP_MAX_ELAPSED_TIME: needless('It starts at once and connects when Redis is there.'),
  REDIS_PERSECOND: supported('Limits per second have a Redis of their own.'),
  MEMCACHE_HOST_PORT: missing('Counters need scripts that run in one step.'),
  MEMCACHE_SRV: missing('Counters need scripts that run in one step.'),
  MEMCACHE_SRV_REFRESH: missing('Counters need scripts that run in one step.', '0'),
  MEMCACHE_MAX_IDLE_CONNS: missing('Counters need scripts that run in one step.', '2'),
  MEMCACHE_TLS: missing('Counters need scripts that run in one step.', 'false'),
  MEMCACHE_TLS_CLIENT_CERT: missing('Counters need scripts that run in one step.'),
  MEMCACHE_TLS_CLIENT_KEY: missing('Counters need scripts that run in one step.'),
  MEMCACHE_TLS_CACERT: missing('Counters need scripts that run in one step.'),
  MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: missing(
    'Counters need scripts that run in one step.',
    'false',
  ),
}

const observing: Readonly<Record<string, Variable>> = {
  USE_PROMETHEUS: supported('A port of its own for metrics; the debug port has them always.'),
  PROMETHEUS_ADDR: supported('Default `:9090`.'),
  PROMETHEUS_PATH: supported('Default `/metrics`.'),
  PROMETHEUS_MAPPER_YAML: needless('Names and labels are those of the default mapping.'),
  PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: missing('Times are in seconds.', 'false'),
  USE_STATSD: missing('Prometheus reads the metrics, and `/stats` shows them.', 'false'),
  STATSD_HOST: missing('Prometheus reads the metrics, and `/stats` shows them.'),
  STATSD_PORT: missing('Prometheus reads the metrics, and `/stats` shows them.'),
  USE_DOG_STATSD: missing('Prometheus reads the metrics, and `/stats` shows them.', 'false'),
  USE_DOG_STATSD_MOGRIFIERS: missing('Prometheus reads the metrics, and `/stats` shows them.'),
  EXTRA_TAGS: missing('Prometheus adds labels of its own to what it reads.'),
  STATS_FLUSH_INTERVAL: needless('Metrics are made when they are read.'),
  DISABLE_STATS: needless('Metrics are made when they are read.', 'false'),
  TRACING_ENABLED: missing('There is no tracing yet.', 'false'),
  TRACING_SERVICE_NAME: missing('There is no tracing yet.'),
  TRACING_SERVICE_NAMESPACE: missing('There is no tracing yet.'),
  TRACING_SERVICE_INSTANCE_ID: missing('There is no tracing yet.'),
  TRACING_EXPORTER_PROTOCOL: missing('There is no tracing yet.'),
  TRACING_SAMPLING_RATE: missing('There is no tracing yet.'),
}

const own: Readonly<Record<string, Variable>> = {
  TIDEGATE_DEADLINE: supported('Ours: the time for a decision. Default 8ms.'),
  TIDEGATE_ON_STORE_ERROR: supported('Ours: `error` (default), `open`, `closed` or `local`.'),
  TIDEGATE_CHARGE: supported(
    'Ours: `all-or-nothing` (default), or `each`: every descriptor for itself, as there.',
  ),
  TIDEGATE_TRANSPORT: supported('Ours: `own` (default) or `node`.'),
  TIDEGATE_OVERLOAD_DELAY: supported(
    'Ours: calls are shed while the event loop is later than this. Default 50ms.',
  ),
  TIDEGATE_KEEPALIVE: supported('Ours: a silent connection is asked after this. Default 60s.'),
  TIDEGATE_UNHEALTHY: supported('Ours: how long it is unhealthy before it stops. Default 0.'),
  TIDEGATE_DRAIN: supported('Ours: how long calls may take to end when it stops. Default 10s.'),
  TIDEGATE_REDIS_PREFIX: supported('Ours: what all keys in Redis begin with. Default `tg`.'),
}

export const variables: ReadonlyMap<string, Variable> = new Map([
  ...Object.entries(listeners),
  ...Object.entries(configuration),
  ...Object.entries(answers),
  ...Object.entries(counters),
  ...withPrefix('REDIS_', redis),
  ...withPrefix('REDIS_PERSECOND_', redis),
  ...Object.entries(redisOnly),
  ...Object.entries(observing),
  ...Object.entries(own),
])

function withPrefix(prefix: string, list: typeof redis): [string, Variable][] {
  return Object.entries(list).map(([name, variable]) => [prefix + name, variable])
}
