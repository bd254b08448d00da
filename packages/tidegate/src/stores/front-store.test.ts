import { describe, expect, it } from 'vitest'
import { combineDecisions } from '../decision.ts'
import { createLimiter } from '../limiter/create-limiter.ts'
import { tokenBucket } from '../limits/limits.ts'
import { chargeOneAsGroup } from './charge-one.ts'
import { frontStore } from './front-store.ts'
import { memoryStore } from './memory/memory-store.ts'
import type { Store } from './store.ts'

const hundred = tokenBucket({ limit: 100, per: '1h' })

/** The memory store as a remote one would look: every answer is a promise. */
function remoteStore(): Store {
  const store = memoryStore()
  return {
    isRemote: true,
    front: frontStore,
    charge: async (group, mode) => store.charge(group, mode),
    chargeOne: chargeOneAsGroup,
    adjust: async (group) => store.adjust(group),
    reset: async (group) => store.reset(group),
    close: async () => store.close(),
  }
}

describe('the front of a store', () => {
  const charge = { name: 'one', limit: hundred, key: 'ada', cost: 1 }

  it('is the store itself where that is in memory', () => {
    const store = memoryStore()
    expect(frontStore(store)).toBe(store)
  })

  it('decides as declared where the store does not answer', async () => {
    const hanging: Store = { ...remoteStore(), charge: () => new Promise(() => undefined) }
    const front = frontStore(hanging, { deadlineMs: 5, onStoreError: 'closed' })
    const [decision] = await front.charge([charge], 'all')
    expect(decision).toMatchObject({ allowed: false, degraded: { mode: 'closed' } })
    await front.close()
  })

  it('judges a group that is another each time', async () => {
    const front = frontStore(remoteStore())
    const two = { name: 'two', limit: tokenBucket({ limit: 1, per: '1h' }), key: 'all', cost: 1 }
    const first = await front.charge([charge, two], 'all')
    expect(combineDecisions(['one', 'two'], first)).toMatchObject({ allowed: true, remaining: 0 })
    const second = await front.charge([charge, two], 'all')
    expect(combineDecisions(['one', 'two'], second).violated).toEqual(['two'])
    expect((await front.charge([charge], 'all'))[0]).toMatchObject({ remaining: 98 })
    await front.close()
  })

  it('belongs to every remote store that a limiter is made with', () => {
    const { front: _none, ...withoutFront } = remoteStore()
    const refused = /^createLimiter\.store: got an object, allowed: .* with front: frontStore$/
    expect(() => createLimiter({ limit: hundred, store: withoutFront })).toThrow(refused)
    const options = { limit: hundred, store: withoutFront, deadlineMs: 5 }
    expect(() => createLimiter(options)).toThrow(refused)
  })

  it('refuses options that it does not know', () => {
    const wrong = { deadline: 5 } as never
    expect(() => frontStore(remoteStore(), wrong)).toThrow(/^frontStore\.deadline: /)
  })
})
