/** Levels of log lines. */

export const logLevels = ['debug', 'info', 'warn', 'error'] as const

export type LogLevel = (typeof logLevels)[number]

/** The lowest level that is logged; `silent` logs nothing. */
export const leastLevels = ['trace', ...logLevels, 'silent'] as const

export type LeastLevel = (typeof leastLevels)[number]

export function isLogged(level: LogLevel, least: LeastLevel): boolean {
  return leastLevels.indexOf(level) >= leastLevels.indexOf(least)
}
