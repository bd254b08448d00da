import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { until } from '../../../../../test/servers/until.ts'
import { tokenBucket } from '../../policy/limits.ts'
import { PlainCharge } from './batch.ts'
import { Dispatch } from './dispatch.ts'
import type { ScriptCall } from './script-call.ts'
import type { ScriptRunner } from './script-runner.ts'
import { ServerTime } from './server-time.ts'

const limit = tokenBucket({ limit: 10, per: '1s' })

/** Takes every command and answers none. */
function silentServer() {
  const calls: ScriptCall[] = []
  const runner: Pick<ScriptRunner, 'run'> = { run: (call) => calls.push(call) }
  const dispatch = new Dispatch(runner as ScriptRunner, new ServerTime(undefined), false)
  const push = (key: string) => dispatch.push(chargeOf(key), key)
  return { calls, push }
}

function chargeOf(key: string): PlainCharge {
  return new PlainCharge(key, limit, 1, { resolve: () => undefined, reject: () => undefined })
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

  test('travel together from a busy process, and wait for no reply for long', async () => {
    const { calls, push } = silentServer()
    await keepBusy()
    push('first')
    while (calls.length === 0) await turn()
    for (let at = 0; at < 10; at++) push(`held ${at}`)
    await turn()
    expect(calls.length).toBe(1)
    await until('the others are sent', () => calls.length > 1)
    expect(calls.map(({ keys }) => keys.length)).toEqual([1, 10])
  })
})
