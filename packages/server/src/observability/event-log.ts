/**
 * Turns the events of a service into lines of its log. Events that repeat are throttled, and texts
 * from outside have their secrets masked. Events of requests have their bound where they are
 * emitted. `docs/logs.md` lists all lines; a test compares it with this code.
 */

import type { LimiterEvent } from 'tidegate'
import { maskSecrets } from '../config/mask-secrets.ts'
import { errorFields } from './error-fields.ts'
import type { Emit, ServiceEvent } from './events.ts'
import { type LogLine, line, type WriteLine } from './log-line.ts'
import { throttle, throttleByKind } from './throttle.ts'
import { trafficLine } from './traffic-lines.ts'

export function logEvents(write: WriteLine): Emit {
  const mayReport = {
    connection: throttle(),
    limits: throttle(),
    misconfigured: throttleByKind(),
    idempotency: throttleByKind(),
    errors: throttleByKind(),
  }
  return (event) => {
    if (event.type === 'store-connection' && !mayReport.connection()) return
    if ((event.type === 'tier-unknown' || event.type === 'shadow-failed') && !mayReport.limits())
      return
    if (event.type === 'error' && !mayReport.errors(String(event.error))) return
    if (event.type === 'idempotency' && !mayReport.idempotency(event.problem)) return
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
    case 'idempotency':
      return [keyLine(event)]
    case 'shadow-failed':
      return [line('warn', 'policy.shadow_failed', { limit: event.limit })]
    case 'process-warning':
      return [warningLine(event.code, maskSecrets(event.reason))]
    case 'error':
      return [errorLine(event.error)]
    case 'overloaded':
    case 'overload-ended':
      return [overloadLine(event)]
    case 'trace-export':
      return [exportLine(event)]
    case 'region-link': {
      const { region, isUp, problem } = event
      if (isUp) return [line('info', 'region.up', { region })]
      return [line('warn', 'region.down', { region, reason: maskSecrets(problem ?? '') })]
    }
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
    case 'setting-ignored':
      return [{ level: 'warn', event: 'setting.ignored', fields: {}, text: event.text }]
    case 'config-applied':
    case 'config-refused':
    case 'config-needs-restart':
      return configLines(event)
    default:
      return [trafficLine(event)]
  }
}

function entriesLine(event: Extract<ServiceEvent, { type: 'live-entries' }>): LogLine {
  const { overrides, blocks, problems } = event
  const level = problems.length > 0 ? 'warn' : 'info'
  return line(level, 'control.entries', { overrides, blocks, problems })
}

function keyLine({ problem, reason }: Extract<ServiceEvent, { type: 'idempotency' }>): LogLine {
  return line('warn', `idempotency.${problem}`, { reason: maskSecrets(reason) })
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
  const fields = errorFields(error)
  return { level: 'error', event: 'service.error', fields, text: fields.reason }
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

function exportLine({ url, problem }: Extract<ServiceEvent, { type: 'trace-export' }>): LogLine {
  const place = maskSecrets(url)
  if (problem === undefined) {
    const text = `spans are exported again to ${place}`
    return { level: 'info', event: 'traces.exported', fields: { place }, text }
  }
  const reason = maskSecrets(problem)
  const text = `spans cannot be exported to ${place} and are dropped: ${reason}`
  return { level: 'warn', event: 'traces.dropped', fields: { place, reason }, text }
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
