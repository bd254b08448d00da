import { expect, test } from 'vitest'
import { parsePolicy } from '../policy/read-policy.ts'
import { overloadSettings } from './overload-settings.ts'

const target = 'http://127.0.0.1:1'

test.for([
  { what: 'no upstream', policy: {}, requestsMax: 10_000 },
  { what: 'one target', policy: { upstreams: { a: { targets: [target] } } }, requestsMax: 2_048 },
  {
    what: 'two upstreams',
    policy: {
      upstreams: { a: { targets: [target, target] }, b: { targets: [target], waitingMax: 4 } },
      routes: [{ upstream: 'a' }],
    },
    requestsMax: 4_100,
  },
  {
    what: 'an upstream that takes few',
    policy: { upstreams: { a: { targets: [target], waitingMax: 1 } } },
    requestsMax: 1_000,
  },
  {
    what: 'an upstream that takes many',
    policy: { upstreams: { a: { targets: [target], waitingMax: 1_000_000 } } },
    requestsMax: 10_000,
  },
  {
    what: 'a maximum of its own',
    policy: { gateway: { overload: { requestsMax: 7 } }, upstreams: { a: { targets: [target] } } },
    requestsMax: 7,
  },
])('with $what, $requestsMax requests may be in flight', ({ policy, requestsMax }) => {
  const result = parsePolicy(policy)
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  const { gateway, upstreams } = result.document
  const settings = overloadSettings(gateway, upstreams)
  expect(settings).toEqual({ delay: 100, criticalShare: 0.2, requestsMax })
})

test('a priority of a tier that does not exist is refused', () => {
  const result = parsePolicy({
    tiers: { names: ['free'], default: 'free', priorities: { gold: 'critical' } },
  })
  if (result.ok) throw new Error('the policy was accepted')
  const messages = result.problems.map(({ message }) => message).join()
  expect(messages).toContain('tiers.priorities')
})
