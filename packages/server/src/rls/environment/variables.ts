/**
 * The environment variables of the reference, and the effect of each. `docs/envoy-settings.md` has
 * them as a table; a test compares both.
 */

export const variableStates = ['supported', 'mapped', 'not needed', 'not supported'] as const

export type VariableState = (typeof variableStates)[number]

export interface Variable {
  readonly state: VariableState
  /** The effect, or the reason why there is none. */
  readonly text: string
  /** For variables without effect: a value that needs no note. */
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
    'The age at which a connection is drained, ± 10 %. Default 24h; 0 is the maximum, 20 days.',
  ),
  GRPC_MAX_CONNECTION_AGE_GRACE: supported(
    'The time for calls to end after that age. Default 1h; 0 is the maximum, 20 days.',
  ),
  GRPC_SERVER_USE_TLS: supported(
    'TLS on the gRPC port. Changed files apply to the next handshake.',
  ),
  GRPC_SERVER_TLS_CERT: supported('The file of the certificate chain.'),
  GRPC_SERVER_TLS_KEY: supported('The file of the private key.'),
  GRPC_CLIENT_TLS_CACERT: supported('The CA that must have signed the certificates of clients.'),
  GRPC_CLIENT_TLS_SAN: supported(
    'The name that a client certificate must have. Needs GRPC_CLIENT_TLS_CACERT.',
  ),
  LOG_LEVEL: supported('`debug`, `info`, `warn` (default) or `error`, or a level name of Go.'),
  LOG_FORMAT: supported('`text` (default) or `json`.'),
}

const configuration: Readonly<Record<string, Variable>> = {
  RUNTIME_ROOT: supported(
    'Default `/srv/runtime_data/current`. The option `--config-dir` overrides it.',
  ),
  RUNTIME_SUBDIRECTORY: supported('A directory in `RUNTIME_ROOT`. Default: none.'),
  RUNTIME_APPDIRECTORY: supported('The directory of the files, in that one. Default `config`.'),
  RUNTIME_IGNOREDOTFILES: supported('Names with two dots, as in a ConfigMap, are always ignored.'),
  RUNTIME_WATCH_ROOT: needless(
    'Tidegate watches both: files that change and a link that is swapped.',
  ),
  MERGE_DOMAIN_CONFIG: supported('Several files may configure the same domain.'),
  CONFIG_TYPE: mapped('Only `FILE`; `GRPC_XDS_SOTW` is refused.'),
  FORCE_START_WITHOUT_INITIAL_CONFIG: needless(
    'The service always starts; calls fail until it has a configuration.',
  ),
  HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: supported(
    'The service is unhealthy until a domain is configured.',
  ),
  USE_CALENDAR_MONTH_RATE_LIMIT: supported('`unit: month` is a calendar month in UTC.'),
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

const responses: Readonly<Record<string, Variable>> = {
  SHADOW_MODE: supported('Every call is admitted; statuses show the real decision.'),
  QUOTA_MODE: supported('Every limit is a quota.'),
  LIMIT_RESPONSE_HEADERS_ENABLED: supported('Adds limit, remaining and reset to responses.'),
  LIMIT_LIMIT_HEADER: supported('Default `RateLimit-Limit`.'),
  LIMIT_REMAINING_HEADER: supported('Default `RateLimit-Remaining`.'),
  LIMIT_RESET_HEADER: supported('Default `RateLimit-Reset`.'),
  RESPONSE_DYNAMIC_METADATA: supported('Returns the request and `metadata` of rules to Envoy.'),
  NEAR_LIMIT_RATIO: supported(
    'The share of a limit from which hits count as near it. Default 0.8.',
  ),
}

const counters: Readonly<Record<string, Variable>> = {
  BACKEND_TYPE: mapped('Only `redis`; `memcache` is refused.'),
  CACHE_KEY_PREFIX: supported('Part of the key of every counter.'),
  LOCAL_CACHE_SIZE_IN_BYTES: needless('Keys over their limit are always cached.', '0'),
  EXPIRATION_JITTER_MAX_SECONDS: needless('A counter expires when it no longer matters.', '300'),
  STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: needless(
    'A refused call charges nothing, except with `TIDEGATE_CHARGE=each`.',
    'true',
  ),
}

/** Also for the Redis of per-second limits, with the prefix `REDIS_PERSECOND_`. */
const redis: Readonly<Record<string, Variable>> = {
  SOCKET_TYPE: supported('`tcp` or `unix`. Default: by the URL.'),
  TYPE: supported('`SINGLE`, `SENTINEL` or `CLUSTER`.'),
  URL: supported(
    '`host:port`; `master,sentinel,…`; `node,…`; also as `redis://`; the path of a Unix socket.',
  ),
  POOL_SIZE: needless('All calls share one connection, several calls per command.', '10'),
  AUTH: supported('`password` or `user:password`.'),
  SENTINEL_AUTH: supported('The password for the Sentinels.'),
  TLS: supported('TLS to Redis.'),
  PIPELINE_WINDOW: needless('Concurrent calls are always batched.', '0'),
  PIPELINE_LIMIT: needless('It has no effect in the reference either.', '0'),
  TIMEOUT: mapped('The deadline of a decision, if shorter than TIDEGATE_DEADLINE.'),
  POOL_ON_EMPTY_BEHAVIOR: needless('There is no connection pool.', 'WAIT'),
}

const redisOnly: Readonly<Record<string, Variable>> = {
  REDIS_TLS_CLIENT_CERT: supported(
    'The client certificate for Redis, also for the one of per-second limits.',
  ),
  REDIS_TLS_CLIENT_KEY: supported('The private key of that certificate.'),
  REDIS_TLS_CACERT: supported('The trusted CA, instead of the default ones.'),
  REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: supported('Accepts a certificate for another host name.'),
  REDIS_CLUSTER_PIPELINE_PARALLELISM: needless(
    'Calls to several nodes are always concurrent.',
    '1',
  ),
  REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: needless(
    'The service is always unhealthy without a connection.',
  ),
  REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR: needless(
    'The service always reconnects if its server was demoted.',
  ),
  REDIS_STARTUP_INITIAL_INTERVAL: needless(
    'The service starts at once and connects when Redis is up.',
  ),
  REDIS_STARTUP_MAX_INTERVAL: needless('The service starts at once and connects when Redis is up.'),
  REDIS_STARTUP_MAX_ELAPSED_TIME: needless(
    'The service starts at once and connects when Redis is up.',
  ),
  REDIS_PERSECOND: supported('Per-second limits use a separate Redis.'),
  MEMCACHE_HOST_PORT: missing('Counters need atomic scripts.'),
  MEMCACHE_SRV: missing('Counters need atomic scripts.'),
  MEMCACHE_SRV_REFRESH: missing('Counters need atomic scripts.', '0'),
  MEMCACHE_MAX_IDLE_CONNS: missing('Counters need atomic scripts.', '2'),
  MEMCACHE_TLS: missing('Counters need atomic scripts.', 'false'),
  MEMCACHE_TLS_CLIENT_CERT: missing('Counters need atomic scripts.'),
  MEMCACHE_TLS_CLIENT_KEY: missing('Counters need atomic scripts.'),
  MEMCACHE_TLS_CACERT: missing('Counters need atomic scripts.'),
  MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION: missing('Counters need atomic scripts.', 'false'),
}

const observability: Readonly<Record<string, Variable>> = {
  USE_PROMETHEUS: supported('A separate port for metrics; the debug port always has them.'),
  PROMETHEUS_ADDR: supported('Default `:9090`.'),
  PROMETHEUS_PATH: supported('Default `/metrics`.'),
  PROMETHEUS_MAPPER_YAML: needless('Names and labels are those of the default mapping.'),
  PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: missing('Times are in seconds.', 'false'),
  USE_STATSD: missing('Metrics are on `/metrics` for Prometheus, and on `/stats`.', 'false'),
  STATSD_HOST: missing('Metrics are on `/metrics` for Prometheus, and on `/stats`.'),
  STATSD_PORT: missing('Metrics are on `/metrics` for Prometheus, and on `/stats`.'),
  USE_DOG_STATSD: missing('Metrics are on `/metrics` for Prometheus, and on `/stats`.', 'false'),
  USE_DOG_STATSD_MOGRIFIERS: missing('Metrics are on `/metrics` for Prometheus, and on `/stats`.'),
  EXTRA_TAGS: missing('Prometheus can add labels when it scrapes.'),
  STATS_FLUSH_INTERVAL: needless('Metrics are computed when they are read.'),
  DISABLE_STATS: needless('Metrics are computed when they are read.', 'false'),
  TRACING_ENABLED: missing('Tracing is not supported.', 'false'),
  TRACING_SERVICE_NAME: missing('Tracing is not supported.'),
  TRACING_SERVICE_NAMESPACE: missing('Tracing is not supported.'),
  TRACING_SERVICE_INSTANCE_ID: missing('Tracing is not supported.'),
  TRACING_EXPORTER_PROTOCOL: missing('Tracing is not supported.'),
  TRACING_SAMPLING_RATE: missing('Tracing is not supported.'),
}

const own: Readonly<Record<string, Variable>> = {
  TIDEGATE_DEADLINE: supported('Tidegate only: the deadline of a decision. Default 8ms.'),
  TIDEGATE_ON_STORE_ERROR: supported(
    'Tidegate only: `error` (default), `open`, `closed` or `local`.',
  ),
  TIDEGATE_CHARGE: supported(
    'Tidegate only: `all-or-nothing` (default), or `each`: separately, as the reference does.',
  ),
  TIDEGATE_TRANSPORT: supported('Tidegate only: `own` (default) or `node`, which is `node:http2`.'),
  TIDEGATE_OVERLOAD_DELAY: supported(
    'Tidegate only: event-loop delay above which calls are shed. Default 50ms.',
  ),
  TIDEGATE_KEEPALIVE: supported('Tidegate only: silence before a PING. Default 60s.'),
  TIDEGATE_UNHEALTHY: supported(
    'Tidegate only: time reported unhealthy before the stop. Default 0.',
  ),
  TIDEGATE_LOG_SAMPLE: supported(
    'Tidegate only: share of calls within their limits that is logged, at `info`. Default 0.01.',
  ),
  TIDEGATE_LOG_LINES: supported('Tidegate only: lines per second about other calls. Default 200.'),
  TIDEGATE_DIGEST_SECRET: supported(
    'Tidegate only: secret of the digests in logs, at least 32 characters. Default: a random one.',
  ),
  TIDEGATE_DRAIN: supported('Tidegate only: time for calls to end at the stop. Default 10s.'),
  TIDEGATE_REDIS_PREFIX: supported('Tidegate only: prefix of all keys in Redis. Default `tg`.'),
  TIDEGATE_REDIS_BUCKETS: supported(
    'Tidegate only: slots of a Cluster that keys share; a change resets all counters. Default 32.',
  ),
  TIDEGATE_ETCD_ENDPOINTS: supported(
    'Tidegate only: follow files that are published in etcd; URLs, separated by commas.',
  ),
  TIDEGATE_ETCD_PREFIX: supported(
    'Tidegate only: before every key in etcd. Default `/tidegate/default/`.',
  ),
  TIDEGATE_ETCD_CA: supported('Tidegate only: trusted CA certificates for etcd.'),
  TIDEGATE_ETCD_CERT: supported('Tidegate only: the client certificate for etcd.'),
  TIDEGATE_ETCD_KEY: supported('Tidegate only: the key of the client certificate.'),
  TIDEGATE_ETCD_USER: supported('Tidegate only: the user of etcd.'),
  TIDEGATE_ETCD_PASSWORD: supported('Tidegate only: the password of the user of etcd.'),
  TIDEGATE_NODE: supported('Tidegate only: the name of this node in a fleet.'),
  TIDEGATE_REGION: supported('Tidegate only: the region of this node, for canaries.'),
  TIDEGATE_STATE_FILE: supported('Tidegate only: the last good files, to start without etcd.'),
  TIDEGATE_ADMIN_PORT: supported(
    'Tidegate only: the port of the [admin API](admin-api.md). Without it there is none.',
  ),
  TIDEGATE_ADMIN_HOST: supported(
    'Tidegate only: its address. Default 127.0.0.1; others need TIDEGATE_ADMIN_TLS_CERT.',
  ),
  TIDEGATE_ADMIN_TOKEN: supported(
    'Tidegate only: its first token, with the role `admin`: at least 32 characters.',
  ),
  TIDEGATE_ADMIN_TOKEN_FILE: supported('Tidegate only: the file of its first token.'),
  TIDEGATE_ADMIN_TLS_CERT: supported('Tidegate only: its certificate chain, a PEM file.'),
  TIDEGATE_ADMIN_TLS_KEY: supported('Tidegate only: the key of its certificate.'),
  TIDEGATE_ADMIN_TLS_CA: supported('Tidegate only: asks clients for certificates of this CA.'),
  TIDEGATE_ADMIN_CERTIFICATES: supported(
    'Tidegate only: roles by names in certificates of clients, such as `ops.example=operate`.',
  ),
  TIDEGATE_ADMIN_HOSTS: supported('Tidegate only: its names in `Host`, separated by commas.'),
  TIDEGATE_ADMIN_STATE: supported(
    'Tidegate only: a file that keeps changes of this node over a restart.',
  ),
}

export const variables: ReadonlyMap<string, Variable> = new Map([
  ...Object.entries(listeners),
  ...Object.entries(configuration),
  ...Object.entries(responses),
  ...Object.entries(counters),
  ...withPrefix('REDIS_', redis),
  ...withPrefix('REDIS_PERSECOND_', redis),
  ...Object.entries(redisOnly),
  ...Object.entries(observability),
  ...Object.entries(own),
])

function withPrefix(prefix: string, list: typeof redis): [string, Variable][] {
  return Object.entries(list).map(([name, variable]) => [prefix + name, variable])
}
