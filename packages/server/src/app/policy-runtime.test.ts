import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ConfigListener } from '../config/source.ts'
import { TierLookups } from '../limits/tiers/tier-lookups.ts'
import type { PolicyFiles } from '../policy/load-policy.ts'
import { parsePolicy } from '../policy/read-policy.ts'
import { Lifecycle } from './lifecycle.ts'
import type { ServicePolicy } from './policy-config.ts'
import { PolicyRuntime } from './policy-runtime.ts'

afterEach(() => void vi.restoreAllMocks())

/** A policy with tiers that are looked up, which its enforcer has to close. */
function policyOf(id: string): ServicePolicy {
  const result = parsePolicy({
    tiers: {
      names: ['free'],
      default: 'free',
      lookup: { url: `http://127.0.0.1:9/${id}/{key}`, by: 'organisation' },
    },
    limits: [{ name: 'all', key: 'organisation', otherwise: 'skip', limit: 1, per: '1h' }],
  })
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  const { document } = result
  return { id, loadedAtMs: 0, value: { document, tierTable: undefined, keyTable: undefined } }
}

/** A runtime with a source that changes when the test does. */
function start() {
  const lifecycle = new Lifecycle()
  onTestFinished(() => lifecycle.close())
  const closed = vi.spyOn(TierLookups.prototype, 'close')
  const events: string[] = []
  let listener: ConfigListener<PolicyFiles> | undefined
  const source = {
    current: undefined,
    read: () => Promise.reject(new Error('not read')),
    follow: (one: ConfigListener<PolicyFiles>) => {
      listener = one
    },
    reload: () => Promise.resolve(),
    close: () => undefined,
  }
  const runtime = new PolicyRuntime(
    {
      config: { policy: policyOf('first'), folder: '/', source },
      environment: {},
      emit: ({ type }) => void events.push(type),
    },
    lifecycle,
  )
  runtime.follow(lifecycle)
  const change = (id: string) => {
    const version = { ...policyOf(id), sequence: 2 }
    return listener?.onChange(version as Parameters<typeof listener.onChange>[0])
  }
  return { runtime, change, closed, events }
}

describe('a policy that a part refuses', () => {
  test('leaves no enforcer open, and the one before at work', () => {
    const { runtime, change, closed, events } = start()
    let isRefusing = true
    runtime.add(() => {
      if (isRefusing) throw new Error('the secret is missing')
      return () => undefined
    })
    const before = runtime.enforcer()
    expect(change('second')).toEqual([{ message: 'the secret is missing' }])
    expect(events).toEqual(['config-refused'])
    expect(runtime.enforcer()).toBe(before)
    expect(closed).toHaveBeenCalledTimes(1)
    const [refused] = closed.mock.contexts
    isRefusing = false
    expect(change('third')).toBeUndefined()
    // Now the first one is closed, which was open until then.
    expect(closed).toHaveBeenCalledTimes(2)
    expect(closed.mock.contexts[1]).not.toBe(refused)
    expect(runtime.enforcer()).not.toBe(before)
  })
})
