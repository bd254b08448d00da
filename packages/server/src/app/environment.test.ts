import { describe, expect, test } from 'vitest'
import { isEnabled, policyFromEnvironment } from './environment.ts'

describe('the policy from the environment', () => {
  test('without any variable, is ten tokens and one per second, in memory', () => {
    expect(policyFromEnvironment({})).toEqual({
      version: 1,
      enabled: true,
      store: { mode: 'memory' },
      gateway: { listen: { port: 8080 } },
      upstreams: { backend: { targets: ['http://localhost:8081'] } },
      limits: [{ name: 'client', key: 'ip', otherwise: 'deny', limit: 1, per: '1s', burst: 10 }],
    })
  })

  test.for([
    ['1.0', { limit: 1, per: '1s' }],
    ['2.5', { limit: 25, per: '10s' }],
    ['0.25', { limit: 25, per: '100s' }],
    ['0.001', { limit: 1, per: '1000s' }],
  ] as const)('counts a refill rate of %s exactly', ([rate, expected]) => {
    const { limits } = policyFromEnvironment({ REFILL_RATE: rate, BUCKET_SIZE: '100' })
    expect(limits).toEqual([expect.objectContaining({ ...expected, burst: 100 })])
  })

  test.for([
    [{ REDIS_ADDR: 'r:1' }, { mode: 'standalone', addresses: ['r:1'] }],
    [{ REDIS_MODE: 'standalone' }, { mode: 'standalone', addresses: ['localhost:6379'] }],
    [{ REDIS_ADDRS: 'a:1, b:2' }, { mode: 'cluster', addresses: ['a:1', 'b:2'] }],
    [
      { REDIS_MODE: 'sentinel', REDIS_ADDRS: 'a:1' },
      { mode: 'sentinel', addresses: ['a:1'], sentinelName: 'mymaster' },
    ],
    [
      { REDIS_MODE: 'standalone', REDIS_PASSWORD: 'geheim' },
      { mode: 'standalone', addresses: ['localhost:6379'], password: { env: 'REDIS_PASSWORD' } },
    ],
    [{ REDIS_MODE: 'memory', REDIS_ADDR: 'r:1' }, { mode: 'memory' }],
  ] as const)('%j is the store %j', ([environment, store]) => {
    expect(policyFromEnvironment(environment).store).toEqual(store)
  })

  test.for([
    [{ BUCKET_SIZE: '0' }, 'BUCKET_SIZE="0" is not allowed; allowed: a whole number from 1'],
    [{ BUCKET_SIZE: 'ten' }, 'BUCKET_SIZE="ten" is not allowed'],
    [{ REFILL_RATE: '-1' }, 'REFILL_RATE="-1" is not allowed'],
    [{ REFILL_RATE: '0.00123' }, 'at most three decimals'],
    [{ REDIS_MODE: 'clutser' }, 'allowed: memory, standalone, sentinel, cluster'],
    [{ BACKEND_URL: 'localhost:8081' }, 'an origin such as http://localhost:8081'],
    [{ BACKEND_URL: 'http://h/path' }, 'an origin such as'],
    [{ RATE_LIMIT_ENABLED: 'perhaps' }, 'RATE_LIMIT_ENABLED="perhaps" is not allowed'],
    [{ TIDEGATE_ENABLED: 'perhaps' }, 'TIDEGATE_ENABLED="perhaps" is not allowed'],
    [{ REDIS_MODE: 'standalone', REDIS_TLS: 'ys' }, 'REDIS_TLS="ys" is not allowed'],
    [{ PORT: '70000' }, 'a port from 0 to 65535'],
  ] as const)('%j is refused', ([environment, message]) => {
    expect(() => policyFromEnvironment(environment)).toThrow(message)
  })
})

test('limiting can be turned off by a variable', () => {
  expect(isEnabled({})).toBeUndefined()
  expect(isEnabled({ TIDEGATE_ENABLED: '0' })).toBe(false)
  expect(isEnabled({ TIDEGATE_ENABLED: ' On ', RATE_LIMIT_ENABLED: '1' })).toBe(true)
  expect(() => isEnabled({ TIDEGATE_ENABLED: '1', RATE_LIMIT_ENABLED: 'no' })).toThrow(
    'TIDEGATE_ENABLED=1 and RATE_LIMIT_ENABLED=no contradict each other',
  )
  expect(isEnabled({ RATE_LIMIT_ENABLED: 'false' })).toBe(false)
  expect(isEnabled({ RATE_LIMIT_ENABLED: '1' })).toBe(true)
  expect(policyFromEnvironment({ RATE_LIMIT_ENABLED: 'off' }).enabled).toBe(false)
})
