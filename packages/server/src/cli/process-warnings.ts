/**
 * Reports the warnings of the process, such as those of the library about an outage, as events
 * instead of the text that Node prints, so that every line keeps the format of the log.
 */

import type { Emit } from '../observability/events.ts'

export function reportWarnings(emit: Emit): void {
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    const code = 'code' in warning ? String(warning.code) : warning.name
    emit({ type: 'process-warning', code, reason: warning.message })
  })
}
