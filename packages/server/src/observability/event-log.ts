/**
 * Turns the events of a service into lines of its log. Events that repeat are throttled, and texts
 * from outside have their secrets masked. Decisions are not logged here: the gateway's log stage
 * has its own bound on those.
 */

import type { LimiterEvent } from 'tidegate'
import { maskSecrets } from '../config/mask-secrets.ts'
import type { Emit, ServiceEvent } from './events.ts'
import { throttle, throttleByKind } from './throttle.ts'

export const logLevels = ['debug', 'info', 'warn', 'error'] as const

export type LogLevel = (typeof logLevels)[number]

export interface LogLine {
  readonly level: LogLevel
  /** Such as `store.breaker`. */
  readonly event: string
  readonly fields: Readonly<Record<string, unknown>>
  /** The line for people; without it, `event` and `fields` are the line. */
  readonly text?: string
}

export type WriteLine = (line: LogLine) => void

export function logEvents(write: WriteLine): Emit {
  const mayReport = {
    connection: throttle(),
    limits: throttle(),
    misconfigured: throttleByKind(),
  }
  return (event) => {
    if (event.type === 'store-connection' && !mayReport.connection()) return
    if ((event.type === 'tier-unknown' || event.type === 'shadow-failed') && !mayReport.limits())
      return
    if (event.type === 'store' && event.event.type === 'misconfigured') {
      if (!mayReport.misconfigured(event.event.error.message)) return
    }
    for (const line of linesOf(event)) write(line)
  }
}

function linesOf(event: ServiceEvent): readonly LogLine[] {
  switch (event.type) {
    case 'store':
      return storeLines(event.event, event.store)
    case 'store-connection': {
      const reason = maskSecrets(event.error.message)
      const fields = { ...named(event.store), reason }
      return [{ level: 'warn', event: 'store.connection', fields, text: `redis: ${reason}` }]
    }
    case 'tier-unknown': {
      const { reason, detail } = event
      return [line('warn', 'policy.tier_unknown', { reason, detail: maskSecrets(detail) })]
    }
    case 'shadow-failed':
      return [line('warn', 'policy.shadow_failed', { limit: event.limit })]
    case 'process-warning':
      return [warningLine(event.code, maskSecrets(event.reason))]
    case 'error':
      return [errorLine(event.error)]
    case 'overloaded':
    case 'overload-ended':
      return [overloadLine(event)]
    case 'control-contact':
      return [contactLine(event)]
    case 'control-note': {
      const text = maskSecrets(event.text)
      return [{ level: 'warn', event: 'control.note', fields: { text }, text }]
    }
    case 'audit':
      return [line('info', 'audit', { record: event.record })]
    case 'live-entries':
      return [entriesLine(event)]
    default:
      return configLines(event)
  }
}

function entriesLine(event: Extract<ServiceEvent, { type: 'live-entries' }>): LogLine {
  const { overrides, blocks, problems } = event
  const level = problems.length > 0 ? 'warn' : 'info'
  return line(level, 'control.entries', { overrides, blocks, problems })
}

function line(level: LogLevel, event: string, fields: LogLine['fields']): LogLine {
  return { level, event, fields }
}

function named(store: string): object {
  return store === '' ? {} : { store }
}

function storeLines(event: LimiterEvent, store: string): readonly LogLine[] {
  const name = named(store)
  switch (event.type) {
    case 'breaker': {
      const { shard, from, to } = event
      return [line('warn', 'store.breaker', { ...name, shard, from, to })]
    }
    case 'recovered': {
      const { shard, outageMs } = event
      return [line('warn', 'store.recovered', { ...name, shard, outage_ms: outageMs })]
    }
    case 'misconfigured': {
      const reason = maskSecrets(event.error.message)
      return [line('error', 'store.misconfigured', { ...name, reason })]
    }
    case 'hot': {
      const { limit, perSecond } = event
      return [line('info', 'store.hot_key', { ...name, limit, per_second: perSecond })]
    }
    case 'nodes':
      return [line('debug', 'store.nodes', { ...name, count: event.count })]
    default:
      return []
  }
}

function warningLine(code: string, reason: string): LogLine {
  return { level: 'warn', event: 'process.warning', fields: { code, reason }, text: reason }
}

function errorLine(error: unknown): LogLine {
  const reason = maskSecrets(error instanceof Error ? error.message : String(error))
  return { level: 'error', event: 'service.error', fields: { reason }, text: reason }
}

function overloadLine(
  event: Extract<ServiceEvent, { type: 'overloaded' | 'overload-ended' }>,
): LogLine {
  if (event.type === 'overload-ended') {
    const { shed } = event
    const count = Object.values(shed).reduce((sum, one) => sum + one, 0)
    const fields = { for_ms: Math.round(event.forMs), shed }
    const text = `no longer overloaded: ${count} requests were refused`
    return { level: 'warn', event: 'overload.ended', fields, text }
  }
  const { requests } = event
  const delayMs = Math.round(event.delayMs)
  const fields = { delay_ms: delayMs, requests }
  const delay = `the event loop is ${delayMs} ms late`
  const text = `overloaded, requests are refused: ${delay}, ${requests} requests in flight`
  return { level: 'warn', event: 'overload.began', fields, text }
}

function contactLine({
  place,
  isReachable,
  problem,
}: Extract<ServiceEvent, { type: 'control-contact' }>): LogLine {
  if (isReachable) {
    const text = `${place} answers`
    return { level: 'info', event: 'control.connected', fields: { place }, text }
  }
  const reason = maskSecrets(problem)
  const text = `${place} does not answer, the live policy stays: ${reason}`
  return { level: 'warn', event: 'control.disconnected', fields: { place, reason }, text }
}

function configLines(
  event: Extract<
    ServiceEvent,
    { type: 'config-applied' | 'config-refused' | 'config-needs-restart' }
  >,
): readonly LogLine[] {
  if (event.type === 'config-needs-restart') {
    return [line('warn', 'policy.needs_restart', { sections: event.sections })]
  }
  if (event.type === 'config-refused') {
    const { problems } = event
    const text = `configuration refused: ${problems.join('\n')}`
    return [{ level: 'error', event: 'policy.refused', fields: { problems }, text }]
  }
  const { version, limits, limitsBefore } = event
  const text = `configuration loaded, limits: ${limits}`
  const applied: LogLine = {
    ...line('info', 'policy.applied', { version, limits }),
    text,
  }
  if (limits > 0 || limitsBefore === 0) return [applied]
  return [applied, line('warn', 'policy.unlimited', { limits_before: limitsBefore })]
}
