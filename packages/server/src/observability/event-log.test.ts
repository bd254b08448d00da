import { Writable } from 'node:stream'
import { TidegateError } from 'tidegate'
import { describe, expect, test } from 'vitest'
import { logEvents } from './event-log.ts'
import { type ServiceEvent, ServiceEvents } from './events.ts'
import type { LogLevel } from './log-level.ts'
import { jsonLines, jsonLogger, messageLines } from './logger.ts'

function textLog(level: LogLevel = 'debug', format: 'text' | 'json' = 'text') {
  const lines: string[] = []
  const write = (text: string) => void lines.push(text)
  const emit = logEvents(messageLines({ level, format, name: 'tidegate rls', write }))
  return { emit, lines }
}

const connectionError = (message: string): ServiceEvent => {
  return { type: 'store-connection', store: '', error: new Error(message) }
}

const misconfigured = (message: string): ServiceEvent => {
  const error = new TidegateError('store-misconfigured', message)
  return { type: 'store', store: '', event: { type: 'misconfigured', error } }
}

describe('the log of events', () => {
  test('masks secrets in every format', () => {
    const chunks: string[] = []
    const write = (chunk: unknown, _encoding: string, done: () => void) => {
      chunks.push(String(chunk))
      done()
    }
    const json = jsonLogger('debug', new Writable({ write }))
    for (const { emit, lines } of [
      textLog(),
      textLog('debug', 'json'),
      { emit: logEvents(jsonLines(json)), lines: chunks },
    ]) {
      emit(connectionError('connect to redis://user:geheim@db:6379'))
      emit({ type: 'process-warning', code: 'W', reason: 'password=geheim' })
      emit({ type: 'error', error: new Error('Bearer geheimgeheim') })
      emit({ type: 'tier-unknown', reason: 'failed', detail: 'http://:geheim@tiers/x' })
      expect(lines).toHaveLength(4)
      expect(lines.join('')).not.toContain('geheim')
    }
  })

  test('writes one line in 5 s about connections, and one for each kind of misuse', () => {
    const { emit, lines } = textLog()
    for (let attempt = 0; attempt < 3; attempt++) emit(connectionError('ECONNREFUSED'))
    emit(misconfigured('NOPERM this user has no permissions, slot 1'))
    emit(misconfigured('NOPERM this user has no permissions, slot 2'))
    emit(misconfigured('WRONGTYPE operation against a key'))
    expect(lines).toEqual([
      'tidegate rls: redis: ECONNREFUSED\n',
      'tidegate rls: store.misconfigured reason=NOPERM this user has no permissions, slot 1\n',
      'tidegate rls: store.misconfigured reason=WRONGTYPE operation against a key\n',
    ])
  })

  test('writes one line in 5 s about each kind of error, with its stack', () => {
    const { emit, lines } = textLog('debug', 'json')
    for (let failure = 0; failure < 3; failure++) emit({ type: 'error', error: new Error('one') })
    emit({ type: 'error', error: new TypeError('other') })
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { event: 'service.error', reason: 'one', stack: expect.stringContaining('event-log.test') },
      { event: 'service.error', reason: 'other' },
    ])
  })

  test('leaves out lines below its level', () => {
    const { emit, lines } = textLog('warn')
    emit({ type: 'config-applied', version: '1-a', limits: 2, limitsBefore: 0 })
    emit({ type: 'config-applied', version: '2-b', limits: 0, limitsBefore: 2 })
    expect(lines).toEqual(['tidegate rls: policy.unlimited limits_before=2\n'])
  })

  test('every subscriber of the stream gets every event', () => {
    const events = new ServiceEvents()
    const seen: string[] = []
    events.subscribe(({ type }) => seen.push(`one ${type}`))
    events.subscribe(({ type }) => seen.push(`other ${type}`))
    events.emit({ type: 'overloaded', delayMs: 1, requests: 2 })
    expect(seen).toEqual(['one overloaded', 'other overloaded'])
  })
})
