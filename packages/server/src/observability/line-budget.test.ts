import { expect, test, vi } from 'vitest'
import type { ServiceEvent } from './events.ts'
import { LineBudget } from './line-budget.ts'

const nodeId = 'a'
const refused = { type: 'connection-refused', client: 'x', reason: 'heldOff', nodeId } as const

test('all lines of clients share one bound per second', () => {
  vi.useFakeTimers()
  const events: ServiceEvent[] = []
  const lines = new LineBudget((event) => void events.push(event))
  lines.use({ level: 'info', linesPerSecondMax: 2, nodeId })
  lines.emit('error', { type: 'gateway-error', error: new Error('one') })
  lines.emit('warn', refused)
  lines.emit('error', { type: 'gateway-error', error: new Error('two') })
  expect(lines.mayWrite('warn')).toBe(false)
  const types = () => events.map(({ type }) => type)
  expect(types()).toEqual(['gateway-error', 'connection-refused'])
  vi.advanceTimersByTime(1_000)
  expect(types()).toEqual(['gateway-error', 'connection-refused', 'lines-left-out'])
  expect(events.at(-1)).toEqual({ type: 'lines-left-out', count: 2, nodeId })
  expect([lines.mayWrite('warn'), lines.leftOut]).toEqual([true, 2])
  vi.useRealTimers()
})

test('a level that is not logged neither writes nor counts', () => {
  const events: ServiceEvent[] = []
  const lines = new LineBudget((event) => void events.push(event))
  lines.use({ level: 'error', linesPerSecondMax: 1, nodeId })
  lines.emit('warn', refused)
  expect([lines.mayWrite('info'), lines.leftOut, events]).toEqual([false, 0, []])
})
