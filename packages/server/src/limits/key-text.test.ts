import { memoryStore } from 'tidegate'
import { expect, test } from 'vitest'
import { createEnforcer } from './enforcer.ts'
import { factsOf, policyOf } from './enforcer-contract.ts'
import { readableKey } from './key-text.ts'

const policy = `
limits:
  - { name: org, key: organisation, otherwise: skip, limit: 8, per: 1s }
  - { name: inner, key: apiKey, otherwise: ip, limit: 7, per: 1s, within: org }
  - { name: pair, key: [organisation, method], otherwise: skip, limit: 9, per: 1s }
`

test.for([
  ['org', { organisation: 'a:c:1' }, 'organisation', ['a:c:1']],
  ['inner', { organisation: 'acme', apiKey: 'k1' }, 'apiKey', ['k1']],
  ['inner', { organisation: 'acme' }, 'ip', ['192.0.2.1']],
  ['pair', { organisation: '3:x' }, '[organisation, method]', ['3:x', 'GET']],
] as const)('the key of %s is read back: %j', async ([name, identity, kind, parts]) => {
  const seen = new Map<string, string>()
  const enforcer = createEnforcer(policyOf(policy), {
    store: memoryStore(),
    onDecision: (charge) => void seen.set(charge.name, charge.key),
  })
  await enforcer.evaluate(factsOf({ identity, ip: '192.0.2.1' }))
  const { byName, rootOf } = enforcer.rules().limits
  const limit = byName.get(name)
  if (limit === undefined) throw new Error('there is no such limit')
  const found = readableKey(limit, rootOf.get(limit), seen.get(name) ?? '')
  expect(found).toEqual({ kind, parts })
})
