/** The log: one JSON object per line, with the time and the level as people read them. */

import pino, { type DestinationStream, type Logger } from 'pino'

export function jsonLogger(
  level: string,
  destination: DestinationStream = pino.destination(1),
): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"ts":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  )
}
