import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../../../../test/support/servers/until.ts'
import type { Decision } from '../../../decision.ts'
import { TidegateError } from '../../../errors.ts'
import { tokenBucket } from '../../../limits/limits.ts'
import type { ScriptCall } from '../scripts/script-arguments.ts'
import { chargeScript } from '../scripts/scripts.generated.ts'
import { ServerTime } from '../server-time.ts'
import { ChargeQueue, type QueueBounds } from './charge-queue.ts'
import type { ScriptRunner } from './script-runner.ts'
import { PlainCharge } from './waiting.ts'

const limit = tokenBucket({ limit: 10, per: '1s' })

/** How a test answers a command. */
interface Answers {
  onReply(reply: unknown, isConfirmed: boolean): void
  onError(error: TidegateError): void
}

/** Takes every command, and answers only when the test does. */
function silentServer(bounds: Partial<QueueBounds> = {}, isShut = false) {
  const calls: ScriptCall[] = []
  const outcomes: Answers[] = []
  const answers: (Decision | string)[] = []
  const errors: string[] = []
  const runner: Pick<ScriptRunner, 'run'> = {
    run: (call, { onReply, onError }) => {
      calls.push(call)
      outcomes.push({
        onReply: (reply, isConfirmed) => onReply(reply, isConfirmed, call),
        onError: (error) => onError(error, call),
      })
    },
  }
  const time = new ServerTime(undefined)
  const limits = { queueMax: 100_000, queueMs: undefined, ...bounds }
  const queue = new ChargeQueue(runner as ScriptRunner, time, { isCluster: false }, limits, isShut)
  const done = {
    resolve: (decision: Decision) => void answers.push(decision),
    reject: (error: unknown) => {
      answers.push((error as TidegateError).code)
      errors.push((error as TidegateError).message)
    },
  }
  const push = (key: string) => queue.push(new PlainCharge(key, limit, 1, done), key)
  return { calls, outcomes, answers, errors, queue, push }
}

/** Everything that goes out immediately is sent then. */
function afterMicrotasks(): Promise<void> {
  return new Promise((resolve) => queueMicrotask(resolve))
}

/** Longer than the time after which the process is looked at again. */
async function keepBusy(): Promise<void> {
  const endMs = performance.now() + 120
  while (performance.now() < endMs) await turn()
}

describe('charges on their way', () => {
  test('go out one by one while the process has time to spare', async () => {
    const { calls, push } = silentServer()
    push('a')
    await turn()
    push('b')
    await turn()
    expect(calls.map(({ keys }) => keys)).toEqual([['a'], ['b']])
  })

  test('are sent in the tick of their call if they are alone', () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { calls, outcomes, push } = silentServer()
      push('a')
      expect(calls.map(({ keys }) => keys)).toEqual([['a']])
      outcomes[0]?.onError(new TidegateError('store-failed', 'down'))
      push('b')
      expect(calls.map(({ keys }) => keys)).toEqual([['a'], ['b']])
    } finally {
      vi.useRealTimers()
    }
  })

  test('are sent in the tick of their call from a busy process, if they are alone', async () => {
    const { calls, outcomes, push } = silentServer()
    await keepBusy()
    push('a')
    expect(calls.map(({ keys }) => keys)).toEqual([['a']])
    outcomes[0]?.onError(new TidegateError('store-failed', 'down'))
    push('b')
    expect(calls.map(({ keys }) => keys)).toEqual([['a'], ['b']])
  })

  test('gather for the rest of the turn while four commands are under way', async () => {
    // While time stands still, the queue does not measure if the process is busy.
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { calls, push } = silentServer()
      for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
        push(key)
        await afterMicrotasks()
      }
      expect(calls.map(({ keys }) => keys)).toEqual([['a'], ['b'], ['c'], ['d']])
      await turn()
      expect(calls.map(({ keys }) => keys)).toEqual([['a'], ['b'], ['c'], ['d'], ['e', 'f']])
    } finally {
      vi.useRealTimers()
    }
  })

  test('of one moment are divided between four commands', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { calls, outcomes, push } = silentServer()
      for (let at = 0; at < 8; at++) push(`key ${at}`)
      await afterMicrotasks()
      // The first one could not know of the others.
      expect(calls.splice(0).map(({ keys }) => keys.length)).toEqual([1, 3, 2, 2])
      for (const { onError } of outcomes) onError(new TidegateError('store-failed', 'down'))
      for (let at = 0; at < 8; at++) push(`key ${at}`)
      await afterMicrotasks()
      expect(calls.map(({ keys }) => keys.length)).toEqual([2, 2, 2, 2])
    } finally {
      vi.useRealTimers()
    }
  })

  test('follow the first of several replies before the next is handled', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { calls, outcomes, answers, push } = silentServer()
      for (let at = 0; at < 8; at++) push(`key ${at}`)
      await afterMicrotasks()
      expect(calls.splice(0)).toHaveLength(4)
      outcomes[0]?.onReply(1, true)
      outcomes[1]?.onReply([1, 1, 1], true)
      expect(answers).toHaveLength(1)
      push('next')
      await afterMicrotasks()
      expect(calls.map(({ keys }) => keys)).toEqual([['next']])
      expect(answers).toHaveLength(1)
      await turn()
      expect(answers).toHaveLength(4)
    } finally {
      vi.useRealTimers()
    }
  })

  test('travel together from a busy process, and wait for no reply for long', async () => {
    const { calls, push } = silentServer()
    await keepBusy()
    push('first')
    while (calls.length === 0) await turn()
    for (let at = 0; at < 10; at++) push(`held ${at}`)
    expect(calls.length).toBe(1)
    await until('the others are sent', () => calls.length > 1)
    expect(calls.map(({ keys }) => keys.length)).toEqual([1, 10])
  })

  test('of one counter are a few charges, however many come at once', async () => {
    const { calls, outcomes, answers, push } = silentServer()
    for (let at = 0; at < 10_000; at++) push('hot')
    await until('they are sent', () => calls.length > 0)
    await turn()
    await until('all have an answer', () => {
      for (const outcome of outcomes.splice(0)) {
        outcome.onError(new TidegateError('store-failed', 'down'))
      }
      return answers.length === 10_000
    })
    expect(calls.flatMap(({ keys }) => keys).length).toBeLessThanOrEqual(384)
  })

  test('get their answers in turns of the event loop that others can use', async () => {
    const { calls, outcomes, answers, queue, push } = silentServer({}, true)
    for (let at = 0; at < 64; at++) push(`cold ${at}`)
    for (let at = 0; at < 10_000; at++) push('hot')
    queue.open()
    await until('they are sent', () => calls.some(({ script }) => script === chargeScript))
    const general = calls.findIndex(({ script }) => script === chargeScript)
    outcomes[general]?.onReply([0, 3, 0, 5_000, 10_000], true)
    expect(answers.length).toBe(1_000)
    await until('all have an answer', () => answers.length === 10_000)
    const allowed = answers.filter((one) => typeof one === 'object' && one.allowed)
    expect(allowed).toMatchObject([{ remaining: 2 }, { remaining: 1 }, { remaining: 0 }])
  })
})

describe('charges that wait', () => {
  test('are at most `queueMax`; one more is refused until they are sent', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { push, errors } = silentServer({ queueMax: 3 }, false)
      for (const key of ['sent', 'a', 'b', 'c']) push(key)
      expect(push('d')).toBe(false)
      expect(errors).toEqual(['3 calls wait to be sent to Redis already'])
      await turn()
      expect(push('d')).toBe(true)
      expect(errors).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })

  test('are rejected with a command that is late, and the next ones are sent', async () => {
    const { calls, outcomes, answers, push } = silentServer()
    for (let at = 0; at < 2_000; at++) push(`key ${at}`)
    await turn()
    const sent = calls.reduce((sum, { keys }) => sum + keys.length, 0)
    expect(sent).toBeLessThan(1_000)
    outcomes[0]?.onError(new TidegateError('store-timeout', 'silent'))
    const first = calls[0]?.keys.length ?? 0
    await until('the queue is decided', () => answers.length === 2_000 - sent + first)
    expect(new Set(answers)).toEqual(new Set(['store-timeout']))
    const before = calls.length
    push('next')
    await until('the next one is sent', () => calls.length === before + 1)
  })

  test('are sent after a command that failed for another reason', async () => {
    const { calls, outcomes, answers, push } = silentServer()
    for (let at = 0; at < 2_000; at++) push(`key ${at}`)
    await turn()
    const before = calls.length
    outcomes[0]?.onError(new TidegateError('store-unreachable', 'reset'))
    await until('more are sent', () => calls.length > before)
    expect(answers.length).toBe(calls[0]?.keys.length)
  })

  test('are refused after `queueMs`, and not before', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      const { calls, answers, push } = silentServer({ queueMs: 800 })
      for (let at = 0; at < 2_000; at++) push(`key ${at}`)
      await turn()
      const sent = calls.reduce((sum, { keys }) => sum + keys.length, 0)
      await vi.advanceTimersByTimeAsync(799)
      expect(answers).toEqual([])
      await vi.advanceTimersByTimeAsync(101)
      await until('they are refused', () => answers.length === 2_000 - sent)
      expect(new Set(answers)).toEqual(new Set(['overloaded']))
      await vi.advanceTimersByTimeAsync(100)
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  test('wait while nothing may be sent yet, and go out together then', async () => {
    const { calls, queue, push } = silentServer({}, true)
    for (let at = 0; at < 50; at++) push(`key ${at}`)
    await turn()
    expect(calls).toEqual([])
    queue.open()
    await until('all are sent', () => calls.flatMap(({ keys }) => keys).length === 50)
  })
})
