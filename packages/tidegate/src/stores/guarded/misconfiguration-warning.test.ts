import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { TidegateError } from '../../errors.ts'
import { misconfigurationWarning } from './misconfiguration-warning.ts'

const warnings: string[] = []

/** Else the process prints them. */
const others = process.listeners('warning')

beforeEach(() => {
  warnings.length = 0
  vi.useFakeTimers({ toFake: ['performance'] })
  process.removeAllListeners('warning')
  process.on('warning', ({ message }) => warnings.push(message))
})

afterEach(() => {
  process.removeAllListeners('warning')
  for (const other of others) process.on('warning', other)
  vi.useRealTimers()
})

it('a misuse is told once a minute for each message', async () => {
  const warn = misconfigurationWarning()
  const say = (message: string) => warn(new TidegateError('store-misconfigured', message))
  for (let at = 0; at < 100; at++) {
    say('NOPERM')
    say('WRONGTYPE')
  }
  expect(await told()).toEqual(['NOPERM', 'WRONGTYPE'])
  vi.advanceTimersByTime(59_999)
  say('NOPERM')
  say('CROSSSLOT')
  expect(await told()).toEqual(['NOPERM', 'WRONGTYPE', 'CROSSSLOT'])
  vi.advanceTimersByTime(1)
  say('CROSSSLOT')
  say('NOPERM')
  expect(await told()).toEqual(['NOPERM', 'WRONGTYPE', 'CROSSSLOT', 'NOPERM'])
})

it('messages that are all different do not flood the log', async () => {
  const warn = misconfigurationWarning()
  for (let at = 0; at < 5_000; at++) {
    warn(new TidegateError('store-misconfigured', `key ${at} has the wrong type`))
  }
  expect(await told()).toHaveLength(100)
  vi.advanceTimersByTime(60_000)
  warn(new TidegateError('store-misconfigured', 'key 1 has the wrong type'))
  expect(await told()).toHaveLength(101)
})

/** Warnings are emitted behind what runs now. */
async function told(): Promise<string[]> {
  await new Promise<void>((resolve) => process.nextTick(resolve))
  return warnings
}
