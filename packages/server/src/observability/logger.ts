/** The log of a service: JSON lines by pino, or lines of text for people. */

import pino, { type DestinationStream, type Logger } from 'pino'
import { isLogged, type LogLevel } from './log-level.ts'
import { asciiJson, asciiText, type WriteLine } from './log-line.ts'

/** One JSON object per line, with the time and the level as text. */
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
      hooks: { streamWrite: asciiJson },
    },
    destination,
  )
}

/** Writes lines of events with a pino logger. */
export function jsonLines(logger: Logger): WriteLine {
  return ({ level, event, fields }) => logger[level]({ event, ...fields })
}

export const logFormats = ['text', 'json'] as const

export type LogFormat = (typeof logFormats)[number]

export interface TextLogOptions {
  readonly level: LogLevel
  readonly format: LogFormat
  /** At the start of every line of text, such as `tidegate rls`. */
  readonly name: string
  write(text: string): void
}

/** Writes lines in the formats of envoyproxy/ratelimit: text, or JSON with a `message`. */
export function messageLines({ level: least, format, name, write }: TextLogOptions): WriteLine {
  return ({ level, event, fields, text }) => {
    if (!isLogged(level, least)) return
    const message = text ?? `${event}${pairsOf(fields)}`
    const ts = new Date().toISOString()
    const line =
      format === 'json'
        ? asciiJson(JSON.stringify({ level, ts, event, ...fields, message }))
        : `${name}: ${asciiText(message)}`
    write(`${line}\n`)
  }
}

/** ` name=value` for each field that has a value. */
function pairsOf(fields: Readonly<Record<string, unknown>>): string {
  return Object.entries(fields)
    .filter(([, value]) => value !== '')
    .map(([name, value]) => ` ${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`)
    .join('')
}
