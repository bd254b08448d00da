import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { RedisCaller } from '../client.ts'
import type { ScriptCall } from '../scripts/script-arguments.ts'
import { chargeScript } from '../scripts/scripts.generated.ts'
import { RoundTrip } from './round-trip.ts'
import { ScriptRunner } from './script-runner.ts'

const DEADLINE_MS = 15

const call = { script: chargeScript, keys: ['key'], args: [] } satisfies Partial<ScriptCall>

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
})

/** Runs one command that the server never answers, and returns when it was given up. */
function givenUpAfterMs(isBurst: () => boolean): number {
  const caller = { evalsha: () => new Promise(() => undefined) } as unknown as RedisCaller
  const options = { deadlineMs: DEADLINE_MS, roundTrip: new RoundTrip(), replication: undefined }
  const runner = new ScriptRunner(caller, options)
  const errors: string[] = []
  const onError = ({ code }: { code: string }) => void errors.push(code)
  runner.run(call as ScriptCall, { onReply: () => undefined, onError }, isBurst)
  let passedMs = 0
  while (errors.length === 0 && passedMs < 1_000) {
    vi.advanceTimersByTime(1)
    passedMs += 1
  }
  expect(errors).toEqual(['store-timeout'])
  return passedMs
}

test('a command is given up after its deadline, and after a grace', () => {
  const afterMs = givenUpAfterMs(() => false)
  expect(afterMs).toBeGreaterThanOrEqual(DEADLINE_MS)
  expect(afterMs).toBeLessThan(2 * DEADLINE_MS)
})

test('a command of a burst has 100 ms', () => {
  expect(givenUpAfterMs(() => true)).toBeGreaterThanOrEqual(100)
})

test('a command that was sent before the burst has as long as those of the burst', () => {
  const startMs = performance.now()
  expect(givenUpAfterMs(() => performance.now() - startMs >= 10)).toBeGreaterThanOrEqual(100)
})

test('a command has its own deadline if the burst is over before it', () => {
  const startMs = performance.now()
  const isBurst = () => performance.now() - startMs >= 5 && performance.now() - startMs < 10
  expect(givenUpAfterMs(isBurst)).toBeLessThan(2 * DEADLINE_MS)
})

test('only single charges are sent by the faster way of a client, if it allows it', async () => {
  const sent: string[] = []
  let isAllowed = true
  const caller = {
    sendEvalsha: () => {
      if (isAllowed) sent.push('fast')
      return isAllowed
    },
    evalsha: async () => void sent.push('own'),
  } as unknown as RedisCaller
  const options = { deadlineMs: DEADLINE_MS, roundTrip: new RoundTrip(), replication: undefined }
  const runner = new ScriptRunner(caller, options)
  const outcome = { onReply: () => undefined, onError: () => undefined }
  const run = (extra: object) => runner.run({ ...call, ...extra } as unknown as ScriptCall, outcome)
  run({ waiting: [{}] })
  run({ waiting: [{}, {}] })
  run({})
  isAllowed = false
  run({ waiting: [{}] })
  expect(sent).toEqual(['fast', 'own', 'own', 'own'])
})

test('a connection is renewed after a second of missing confirmations', async () => {
  let confirmed = 1
  let reconnects = 0
  const caller = {
    evalshaAndWait: async () => ({ reply: [], confirmed }),
    reconnect: () => {
      reconnects += 1
    },
  } as unknown as RedisCaller
  const replication = { replicas: 1, timeoutMs: 10 }
  const options = { deadlineMs: DEADLINE_MS, roundTrip: new RoundTrip(), replication }
  const runner = new ScriptRunner(caller, options)
  const run = async (isConfirmed: boolean, afterMs: number) => {
    vi.advanceTimersByTime(afterMs)
    confirmed = isConfirmed ? 1 : 0
    await new Promise<void>((resolve, reject) => {
      runner.run(call as ScriptCall, { onReply: () => resolve(), onError: reject })
    })
    return reconnects
  }
  expect(await run(false, 60_000)).toBe(0)
  expect(await run(true, 900)).toBe(0)
  expect(await run(false, 60_000)).toBe(0)
  expect(await run(false, 999)).toBe(0)
  expect(await run(false, 1)).toBe(1)
})
