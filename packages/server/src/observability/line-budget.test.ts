import { Writable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { LineBudget } from './line-budget.ts'
import { jsonLogger } from './logger.ts'

test('lines of errors and refused connections share one bound per second', () => {
  vi.useFakeTimers()
  const events: string[] = []
  const write = (chunk: unknown, _encoding: string, done: () => void) => {
    events.push(JSON.parse(String(chunk)).event)
    done()
  }
  const lines = new LineBudget(jsonLogger('info', new Writable({ write })))
  lines.use({ linesPerSecondMax: 2, nodeId: 'a' })
  lines.error(new Error('one'))
  lines.refusedConnection('connectionsMax', '192.0.2.1')
  lines.error(new Error('two'))
  expect(lines.mayWrite()).toBe(false)
  expect(events).toEqual(['gateway.error', 'connection.refused'])
  vi.advanceTimersByTime(1_000)
  expect(events).toEqual(['gateway.error', 'connection.refused', 'log.left_out'])
  expect(lines.mayWrite()).toBe(true)
  vi.useRealTimers()
})
