import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { until } from '../../../../../../test/support/servers/until.ts'
import type { Decision } from '../../../decision.ts'
import { TidegateError } from '../../../errors.ts'
import { tokenBucket } from '../../../limits/limits.ts'
import { slotOf } from '../cluster-slot.ts'
import type { ScriptCall } from '../scripts/script-arguments.ts'
import { ServerTime } from '../server-time.ts'
import { ChargeQueue } from './charge-queue.ts'
import type { ScriptRunner } from './script-runner.ts'
import { PlainCharge } from './waiting.ts'

const limit = tokenBucket({ limit: 10, per: '1s' })

/** How a test answers a command. */
interface Answers {
  onReply(reply: unknown): void
  onError(error: TidegateError): void
}

/** A cluster that answers only when the test does. */
function silentCluster(nodeOfSlot?: (slot: number) => string | undefined) {
  const sent: { readonly call: ScriptCall; readonly outcome: Answers }[] = []
  const answers: string[] = []
  const runner: Pick<ScriptRunner, 'run'> = {
    run: (call, { onReply, onError }) => {
      const outcome = {
        onReply: (reply: unknown) => onReply(reply, true, call),
        onError: (error: TidegateError) => onError(error, call),
      }
      sent.push({ call, outcome })
    },
  }
  const caller = { isCluster: true, ...(nodeOfSlot && { nodeOfSlot }) }
  const bounds = { queueMax: 100_000, queueMs: undefined }
  const time = new ServerTime(undefined)
  const queue = new ChargeQueue(runner as ScriptRunner, time, caller, bounds)
  const push = (key: string) =>
    queue.push(
      new PlainCharge(key, limit, 1, {
        resolve: ({ allowed }: Decision) => void answers.push(allowed ? 'allowed' : 'denied'),
        reject: (error) => void answers.push((error as TidegateError).code),
      }),
      key,
    )
  const keysOf = (from = 0) => sent.slice(from).map(({ call }) => call.keys)
  const answer = (at: number) => {
    const { call, outcome } = sent[at] as (typeof sent)[number]
    outcome.onReply(call.keys.length === 1 ? 1 : call.keys.map(() => 1))
  }
  return { sent, answers, push, keysOf, answer }
}

/** Everything that goes out immediately is sent then. */
function afterMicrotasks(): Promise<void> {
  return new Promise((resolve) => queueMicrotask(resolve))
}

describe('charges to a cluster', () => {
  test('of one slot travel in one command, and lanes of one master in one wave', async () => {
    const { push, keysOf } = silentCluster(() => 'a')
    for (const key of ['{x}1', '{y}1', '{x}2', '{y}2', '{x}3']) push(key)
    await turn()
    expect(keysOf()).toEqual([
      ['{x}1', '{x}2', '{x}3'],
      ['{y}1', '{y}2'],
    ])
  })

  test('leave in one wave at the end of the turn while others are under way', async () => {
    // While time stands still, the queue does not measure if the process is busy.
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const { push, keysOf } = silentCluster(() => 'a')
      push('{x}1')
      await afterMicrotasks()
      expect(keysOf()).toEqual([['{x}1']])
      for (const key of ['{y}1', '{z}1', '{y}2']) {
        push(key)
        await afterMicrotasks()
      }
      expect(keysOf(1)).toEqual([])
      await turn()
      expect(keysOf(1)).toEqual([['{y}1', '{y}2'], ['{z}1']])
      // Two waves are under way.
      push('{w}1')
      await turn()
      expect(keysOf(3)).toEqual([])
    } finally {
      vi.useRealTimers()
    }
  })

  test('gather while two waves are under way to their master', async () => {
    const { push, keysOf, answer, answers } = silentCluster(() => 'a')
    push('{x}1')
    await turn()
    push('{y}1')
    await turn()
    for (const key of ['{z}1', '{z}2', '{x}2', '{x}3']) push(key)
    await turn()
    expect(keysOf()).toEqual([['{x}1'], ['{y}1']])
    answer(1)
    await until('the next wave is sent', () => keysOf().length === 3)
    // The slot of the first command has one command at a time.
    expect(keysOf(2)).toEqual([['{z}1', '{z}2']])
    answer(0)
    await until('the last wave is sent', () => keysOf().length === 4)
    expect(keysOf(3)).toEqual([['{x}2', '{x}3']])
    expect(answers).toEqual(['allowed', 'allowed'])
  })

  test('do not wait for another master', async () => {
    const { push, keysOf } = silentCluster((slot) => (slot === slotOf('{z}') ? 'b' : 'a'))
    for (const key of ['{x}1', '{y}1', '{w}1', '{z}1']) {
      push(key)
      await turn()
    }
    expect(keysOf()).toEqual([['{x}1'], ['{y}1'], ['{z}1']])
  })

  test('are rejected with a late command of their master, and no others', async () => {
    const { sent, push, answers } = silentCluster((slot) => (slot === slotOf('{z}') ? 'b' : 'a'))
    for (const key of ['{x}1', '{y}1', '{w}1', '{z}1']) {
      push(key)
      await turn()
    }
    sent[0]?.outcome.onError(new TidegateError('store-timeout', 'late'))
    await until('both are rejected', () => answers.length === 2)
    expect(answers).toEqual(['store-timeout', 'store-timeout'])
  })

  test('follow their slot to another master', async () => {
    let node = 'a'
    const { push, keysOf, answer } = silentCluster((slot) => (slot === slotOf('{x}') ? node : 'a'))
    push('{x}1')
    await turn()
    push('{y}1')
    await turn()
    push('{x}2')
    push('{w}1')
    await turn()
    node = 'b'
    answer(0)
    await until('both are sent', () => keysOf().length === 4)
    push('{z}1')
    await turn()
    // Two waves are under way to a: those of y and w. That of x is under way to b.
    expect(keysOf(2).flat().sort()).toEqual(['{w}1', '{x}2'])
  })

  test('go out at once if the client does not know the masters', async () => {
    const { push, keysOf } = silentCluster()
    for (const key of ['{x}1', '{y}1', '{z}1', '{w}1']) {
      push(key)
      await turn()
    }
    expect(keysOf()).toEqual([['{x}1'], ['{y}1'], ['{z}1'], ['{w}1']])
  })
})
