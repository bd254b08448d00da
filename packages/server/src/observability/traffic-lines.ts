/** The lines of events that requests cause, and of the log itself. */

import { maskSecrets } from '../config/mask-secrets.ts'
import { errorFields } from './error-fields.ts'
import { type LogLine, line } from './log-line.ts'
import type { LogEvent, TrafficEvent } from './traffic-events.ts'

export function trafficLine(event: TrafficEvent | LogEvent): LogLine {
  switch (event.type) {
    case 'decision':
      return line(event.level, 'ratelimit.decision', event.line)
    case 'request-refused':
      return line(event.level, 'gateway.refused', event.line)
    case 'response-cut-off':
      return line('warn', 'gateway.cut_off', event.line)
    case 'connection-refused': {
      const { client, reason, nodeId } = event
      return line('warn', 'connection.refused', { client_id: client, reason, node_id: nodeId })
    }
    case 'target':
      return targetLine(event)
    case 'gateway-error':
      return gatewayErrorLine(event)
    case 'lines-left-out':
      return line('warn', 'log.left_out', { count: event.count, node_id: event.nodeId })
    case 'log-failed':
      return line('error', 'log.failed', { log: event.log, reason: event.reason })
    case 'log-reopened': {
      const { log, problem } = event
      if (problem === undefined) return line('info', 'log.reopened', { log })
      return line('error', 'log.reopen_failed', { log, reason: maskSecrets(problem) })
    }
  }
}

/** Names as in other lines, and times as whole milliseconds. */
function targetLine(event: Extract<TrafficEvent, { type: 'target' }>): LogLine {
  const { upstream, target, change, nodeId } = event
  const { type, ...figures } = change
  const names = { forMs: 'for_ms', downMs: 'down_ms' } as Readonly<Record<string, string>>
  const fields = Object.entries(figures).map(([name, value]) => {
    return [names[name] ?? name, typeof value === 'number' ? Math.round(value) : value]
  })
  const own = Object.fromEntries(fields)
  return line('warn', `upstream.${type}`, { upstream, target, ...own, node_id: nodeId })
}

function gatewayErrorLine({
  error,
  requestId,
}: Extract<TrafficEvent, { type: 'gateway-error' }>): LogLine {
  const id = requestId !== undefined && { request_id: requestId }
  return line('error', 'gateway.error', { ...id, ...errorFields(error) })
}
