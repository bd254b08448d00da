import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import { manualClock } from '../clock.ts'
import { createIdempotency, type KeyedRequest, type Start } from './idempotency.ts'
import type { IdempotencyOptions } from './idempotency-options.ts'
import { ReplayGuard } from './replay-guard.ts'
import { memoryIdempotencyStore } from './stores/memory-idempotency-store.ts'

const request = (key: string, body = 'body'): KeyedRequest => ({
  method: 'POST',
  target: '/orders',
  keyField: key,
  scope: () => 'ada',
  body: () => body,
})

function execution(start: Start) {
  if (start.kind !== 'execute') throw new Error(`not executed: ${JSON.stringify(start)}`)
  return start.execution
}

const kept = (text: string) => ({ status: 200, headers: [], body: Buffer.from(text) })

const textOf = (start: Start) =>
  start.kind === 'replay' ? Buffer.from(start.response.body).toString() : start.kind

describe('an execution', () => {
  it('that never answers loses its key after ten minutes, and not before', async () => {
    const clock = manualClock()
    const store = memoryIdempotencyStore({ clock })
    const keys = createIdempotency({ store, clock, onLostOwner: 'refuse', wait: '1ms' })
    const other = createIdempotency({ store, clock, onLostOwner: 'refuse', wait: '1ms' })
    const key = randomUUID()
    execution(await keys.start(request(key)))
    const codeAfter = async (ms: number) => {
      for (let left = ms; left > 0; left -= 1_000) {
        clock.advance(1_000)
        await new Promise(setImmediate)
      }
      const started = other.start(request(key))
      await new Promise(setImmediate)
      clock.advance(1)
      const start = await started
      return start.kind === 'refuse' ? start.problem.code : start.kind
    }
    expect(await codeAfter(590_000)).toBe('in-progress')
    expect(await codeAfter(30_000)).toBe('outcome-unknown')
    expect(keys.inFlight.executing).toBe(0)
  })

  it('without a store is shared by the requests of its process', async () => {
    const store = {
      ...memoryIdempotencyStore(),
      claim: () => Promise.reject(new Error('down')),
      complete: () => Promise.reject(new Error('down')),
    }
    const keys = createIdempotency({ store, onStoreError: 'execute' } as IdempotencyOptions)
    const key = randomUUID()
    const first = execution(await keys.start(request(key)))
    const second = keys.start(request(key))
    await until('the second waits', async () => keys.inFlight.waiting === 1)
    await first.finish(kept('one'))
    expect(textOf(await second)).toBe('one')
  })

  it('whose result cannot be stored at first stores it later', async () => {
    const clock = manualClock()
    const inner = memoryIdempotencyStore({ clock })
    let failures = 3
    const events: string[] = []
    const store: typeof inner = {
      claim: (...args) => inner.claim(...args),
      renew: (...args) => inner.renew(...args),
      release: (...args) => inner.release(...args),
      look: (key) => inner.look(key),
      forget: (key) => inner.forget(key),
      complete: async (...args) => {
        if (failures-- > 0) throw new Error('down')
        return inner.complete(...args)
      },
    }
    const keys = createIdempotency({ store, clock, observer: ({ type }) => events.push(type) })
    const key = randomUUID()
    const own = execution(await keys.start(request(key)))
    expect(await own.finish(kept('done'))).toEqual({ kind: 'own' })
    expect(events).toEqual(['executed', 'unsaved'])
    for (let at = 0; at < 4; at++) {
      clock.advance(250)
      await new Promise(setImmediate)
    }
    expect(textOf(await createIdempotency({ store, clock }).start(request(key)))).toBe('done')
  })
})

describe('a request with another body', () => {
  it('does not lead others astray while the first is being looked up', async () => {
    const store = memoryIdempotencyStore()
    const key = randomUUID()
    const before = createIdempotency({ store })
    await execution(await before.start(request(key, 'right'))).finish(kept('done'))
    const keys = createIdempotency({ store })
    const starts = await Promise.all([
      keys.start(request(key, 'wrong')),
      keys.start(request(key, 'right')),
      keys.start(request(key, 'wrong')),
    ])
    expect(starts.map(textOf)).toEqual(['refuse', 'done', 'refuse'])
  })
})

describe('the guard of replays', () => {
  it('admits ten seconds of replays at once, then as many per second', () => {
    const clock = manualClock()
    const guard = new ReplayGuard(2, clock)
    const replays = () => {
      let count = 0
      for (; guard.admits('ada') && count < 100; count++) guard.note('ada')
      return count
    }
    expect(replays()).toBe(20)
    clock.advance(1_000)
    expect(replays()).toBe(2)
    expect(guard.admits('bob')).toBe(true)
  })
})

describe('the options', () => {
  it.each([
    [{ ttl: '1s', lease: '2s' }, /idempotency.ttl: got "1s", allowed: at least as long as lease/],
    [{ ttl: 3600 }, /a duration with its unit/],
    [{ keptHeaders: ['Set-Cookie'] }, /idempotency.keptHeaders: got "set-cookie"/],
    [{ responseBytesMax: 2 ** 30 }, /idempotency.responseBytesMax/],
    [{ retryStatuses: [99] }, /idempotency.retryStatuses/],
    [{ methods: ['post'] }, /methods such as POST/],
    [{ onStoreError: 'open' }, /'refuse', 'execute'/],
    [{ store: {} }, /a store of memoryIdempotencyStore/],
    [{ expires: '1h' }, /no option but/],
  ])('%j are refused', (options, message) => {
    expect(() => createIdempotency(options as IdempotencyOptions)).toThrow(message)
  })
})
