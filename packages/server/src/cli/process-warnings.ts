/**
 * Sends the warnings of the process, such as those of the library about an outage, to the log of a
 * service instead of the text that Node prints, so that every line keeps the format of the log.
 */

export interface ProcessWarning {
  readonly code: string
  readonly reason: string
}

export function logWarnings(log: (warning: ProcessWarning) => void): void {
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    const code = 'code' in warning ? String(warning.code) : warning.name
    log({ code, reason: warning.message })
  })
}
