import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readText } from '../../../../test/house/source-file.ts'
import { variables } from './environment/variables.ts'
import { rlsDefaults, rlsSettings } from './settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'tidegate-settings-'))

afterAll(() => rmSync(folder, { recursive: true }))

function file(name: string): string {
  const path = join(folder, name)
  writeFileSync(path, name)
  return path
}

describe('settings from the environment', () => {
  test('are the defaults without any variable, with a word on where counters are', () => {
    const { settings, notes } = rlsSettings({ PATH: '/bin', HOME: '/' })
    expect(settings).toEqual({
      ...rlsDefaults,
      configDirectory: '/srv/runtime_data/current/config',
    })
    expect(notes).toEqual(['REDIS_URL is not set: counters are kept in the memory of this process'])
  })

  test('say where the configuration is', () => {
    const { settings } = rlsSettings({
      RUNTIME_ROOT: '/data',
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_APPDIRECTORY: 'limits',
      RUNTIME_IGNOREDOTFILES: 'true',
      MERGE_DOMAIN_CONFIG: '1',
    })
    expect(settings).toMatchObject({
      configDirectory: '/data/ratelimit/limits',
      ignoresDotFiles: true,
      mergesDomains: true,
    })
  })

  test('say where to listen', () => {
    const { settings } = rlsSettings({
      HOST: '10.0.0.1',
      PORT: '80',
      DEBUG_HOST: '0.0.0.0',
      DEBUG_PORT: '0',
      GRPC_PORT: '81',
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: '[::1]:9999',
    })
    expect(settings).toMatchObject({
      http: { host: '10.0.0.1', port: 80 },
      debug: { host: '0.0.0.0', port: 0 },
      grpc: { host: '0.0.0.0', port: 81 },
      prometheus: { host: '::1', port: 9999, path: '/metrics' },
    })
    expect(rlsSettings({ GRPC_UDS: '/tmp/s' }).settings.grpc).toEqual({ path: '/tmp/s' })
    expect(rlsSettings({ PROMETHEUS_ADDR: ':1' }).settings.prometheus).toBeUndefined()
  })

  test('say how long connections live, as Go writes times', () => {
    const agesOf = (age: string) => {
      const { settings } = rlsSettings({ GRPC_MAX_CONNECTION_AGE: age })
      return settings.connectionAgeMs
    }
    expect(agesOf('1h30m')).toBe(5_400_000)
    expect(agesOf('1.5s')).toBe(1_500)
    expect(agesOf('250us')).toBe(1)
    expect([agesOf('0'), agesOf('0s'), agesOf('10000h')]).toEqual(Array(3).fill(1_728_000_000))
  })

  test('say what answers look like', () => {
    const { settings } = rlsSettings({
      SHADOW_MODE: 'TRUE',
      QUOTA_MODE: 'f',
      LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
      LIMIT_RESET_HEADER: 'X-Reset',
      NEAR_LIMIT_RATIO: '0.5',
      RESPONSE_DYNAMIC_METADATA: 'true',
      LOG_LEVEL: 'WARNING',
    })
    expect(settings).toMatchObject({
      isShadowMode: true,
      isQuotaMode: false,
      headerNames: ['RateLimit-Limit', 'RateLimit-Remaining', 'X-Reset'],
      nearLimitRatio: 0.5,
      hasDynamicMetadata: true,
      logLevel: 'warn',
    })
  })

  test('say which certificates to use', () => {
    const { settings } = rlsSettings({
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: 'c.pem',
      GRPC_SERVER_TLS_KEY: 'k.pem',
      GRPC_CLIENT_TLS_CACERT: 'ca.pem',
      GRPC_CLIENT_TLS_SAN: 'envoy',
    })
    const tls = { cert: 'c.pem', key: 'k.pem', clientCa: 'ca.pem', clientNames: ['envoy'] }
    expect(settings.tls).toEqual(tls)
  })

  test('give a decision the shorter of two times', () => {
    const deadlineOf = (environment: Record<string, string>) =>
      rlsSettings(environment).settings.storeDeadlineMs
    expect(deadlineOf({ REDIS_TIMEOUT: '10s' })).toBe(8)
    expect(deadlineOf({ REDIS_TIMEOUT: '5ms' })).toBe(5)
    expect(deadlineOf({ TIDEGATE_DEADLINE: '15ms' })).toBe(15)
  })
})

test('charging is all or nothing unless each descriptor is to be charged', () => {
  const chargingOf = (environment: Record<string, string>) =>
    rlsSettings(environment).settings.charging
  expect(chargingOf({})).toBe('all-or-nothing')
  expect(chargingOf({ TIDEGATE_CHARGE: 'each' })).toBe('each')
})

describe('Redis from the environment', () => {
  const cases: readonly (readonly [Record<string, string>, object])[] = [
    [{ REDIS_URL: 'r:1' }, { mode: 'standalone', addresses: ['r:1'] }],
    [{ REDIS_URL: '[::1]:1', REDIS_SOCKET_TYPE: 'tcp' }, { addresses: ['[::1]:1'] }],
    [
      { REDIS_URL: 'redis://ada:b@r@h:1/3' },
      { addresses: ['h:1'], username: 'ada', password: 'b@r', database: 3 },
    ],
    [{ REDIS_URL: '/run/r.sock' }, { mode: 'standalone', addresses: ['/run/r.sock'] }],
    [
      { REDIS_URL: '/run/r.sock', REDIS_SOCKET_TYPE: 'unix', REDIS_AUTH: 'geheim' },
      { addresses: ['/run/r.sock'], password: 'geheim' },
    ],
    [{ REDIS_URL: 'r:1', REDIS_AUTH: 'geheim' }, { password: 'geheim' }],
    [
      { REDIS_URL: 'r:1', REDIS_AUTH: 'ada:ge:heim' },
      { username: 'ada', password: 'ge:heim' },
    ],
    [
      { REDIS_TYPE: 'SENTINEL', REDIS_URL: 'main,a:1,b:2', REDIS_SENTINEL_AUTH: 's' },
      {
        mode: 'sentinel',
        addresses: ['a:1', 'b:2'],
        sentinelName: 'main',
        sentinelPassword: 's',
      },
    ],
    [
      { REDIS_TYPE: 'cluster', REDIS_URL: 'a:1, b:2' },
      { mode: 'cluster', addresses: ['a:1', 'b:2'] },
    ],
    [{ REDIS_URL: 'rediss://r:1' }, { tls: {} }],
    [{ REDIS_URL: 'r:1', TIDEGATE_REDIS_PREFIX: 'x' }, { prefix: 'x' }],
    [{ REDIS_TYPE: 'cluster', REDIS_URL: 'a:1', TIDEGATE_REDIS_BUCKETS: '512' }, { buckets: 512 }],
  ]
  test.each(cases)('with %j is %j', (environment, store) => {
    expect(rlsSettings(environment).settings.store).toMatchObject(store)
  })

  test('has certificates from files', () => {
    const { settings } = rlsSettings({
      REDIS_URL: 'r:1',
      REDIS_TLS: 'true',
      REDIS_TLS_CACERT: file('ca'),
      REDIS_TLS_CLIENT_CERT: file('cert'),
      REDIS_TLS_CLIENT_KEY: file('key'),
      REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: 'true',
    })
    const { ca, cert, key, checkServerIdentity } = settings.store.tls ?? {}
    expect([ca, cert, key].map(String)).toEqual(['ca', 'cert', 'key'])
    expect(checkServerIdentity).toBeTypeOf('function')
  })

  test('can be another one for limits per second', () => {
    const environment = {
      REDIS_URL: 'r:1',
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_URL: 's:1,t:2',
      REDIS_PERSECOND_TYPE: 'CLUSTER',
    }
    const { perSecondStore } = rlsSettings(environment).settings
    expect(perSecondStore).toMatchObject({ mode: 'cluster', addresses: ['s:1', 't:2'] })
    const onSocket = { ...environment, REDIS_PERSECOND_TYPE: '', REDIS_PERSECOND_URL: '/s.sock' }
    expect(rlsSettings(onSocket).settings.perSecondStore).toEqual({
      mode: 'standalone',
      addresses: ['/s.sock'],
    })
    const { REDIS_PERSECOND, ...without } = environment
    expect(rlsSettings(without).settings.perSecondStore).toBeUndefined()
  })
})

describe('a start is refused with', () => {
  const refused: readonly (readonly [Record<string, string>, string])[] = [
    [{ PORT: '70000' }, 'PORT: "70000" is not allowed; allowed: a whole number from 0 to 65535'],
    [{ GRPC_PORT: 'http' }, 'GRPC_PORT: "http" is not allowed'],
    [{ SHADOW_MODE: 'yes' }, 'SHADOW_MODE: "yes" is not allowed; allowed: true or false'],
    [{ GRPC_MAX_CONNECTION_AGE: '5' }, 'allowed: a time such as 24h, 1h30m, 500ms or 0'],
    [{ GRPC_MAX_CONNECTION_AGE: '5x' }, 'GRPC_MAX_CONNECTION_AGE: "5x" is not allowed'],
    [{ NEAR_LIMIT_RATIO: '1.5' }, 'a number from 0 to 1'],
    [
      { CONFIG_TYPE: 'GRPC_XDS_SOTW' },
      'CONFIG_TYPE: "GRPC_XDS_SOTW" is not allowed; allowed: FILE',
    ],
    [{ BACKEND_TYPE: 'memcache' }, 'BACKEND_TYPE: "memcache" is not allowed; allowed: redis'],
    [{ LOG_LEVEL: 'loud' }, 'allowed: debug, info, warn or error'],
    [{ REDIS_TYPE: 'RING', REDIS_URL: 'r:1' }, 'allowed: SINGLE, SENTINEL, CLUSTER'],
    [{ REDIS_URL: 'a:1,b:2' }, 'set the type to SENTINEL or CLUSTER'],
    [{ REDIS_URL: `/${'a'.repeat(107)}` }, 'the path of a socket, of at most 107 bytes'],
    [{ REDIS_URL: '/s', REDIS_SOCKET_TYPE: 'tcp' }, 'allowed: unix, with a path in REDIS_URL'],
    [{ REDIS_URL: 'r:1', REDIS_SOCKET_TYPE: 'unix' }, 'allowed: tcp, with host:port in REDIS_URL'],
    [{ REDIS_URL: '/s', REDIS_TYPE: 'CLUSTER' }, 'host:port such as localhost:6379'],
    [
      { TIDEGATE_CHARGE: 'none' },
      'TIDEGATE_CHARGE: "none" is not allowed; allowed: all-or-nothing',
    ],
    [{ REDIS_URL: 'r:99999' }, 'host:port such as localhost:6379'],
    [{ REDIS_PERSECOND: 'true' }, 'REDIS_PERSECOND_URL: its value is not allowed'],
    [{ REDIS_URL: 'r:1', REDIS_TLS: '1', REDIS_TLS_CACERT: '/none' }, 'REDIS_TLS_CACERT: "/none"'],
    [{ GRPC_SERVER_USE_TLS: 'true' }, 'GRPC_SERVER_TLS_CERT: "" is not allowed'],
    [{ PROMETHEUS_ADDR: '9090', USE_PROMETHEUS: '1' }, 'allowed: host:port or :port'],
    [
      { LIMIT_RESPONSE_HEADERS_ENABLED: '1', LIMIT_LIMIT_HEADER: 'a b' },
      'LIMIT_LIMIT_HEADER: "a b" is not allowed; allowed: the name of a header field',
    ],
  ]
  test.each(refused)('%j', (environment, message) => {
    expect(() => rlsSettings(environment)).toThrow(message)
  })

  test('no password in its message', () => {
    expect(() => rlsSettings({ REDIS_URL: 'redis://ada:geheim@x' })).toThrow(/^(?!.*geheim).*$/s)
  })
})

test('variables without an effect get a note, unless they say what holds anyway', () => {
  const { notes } = rlsSettings({
    REDIS_URL: 'r:1',
    USE_STATSD: 'true',
    USE_DOG_STATSD: 'false',
    REDIS_POOL_SIZE: '10',
    EXPIRATION_JITTER_MAX_SECONDS: '5',
  })
  expect(notes).toEqual([
    'EXPIRATION_JITTER_MAX_SECONDS has no effect: A counter expires when it no longer matters.',
    'USE_STATSD has no effect: Metrics are on `/metrics` for Prometheus, and on `/stats`.',
  ])
})

test('the documents have the same table', () => {
  const rows = readText('docs/envoy-settings.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
  const expected = [...variables].map(
    ([name, { state, text }]) => `| \`${name}\` | ${state} | ${text} |`,
  )
  expect(rows).toEqual(expected)
})
