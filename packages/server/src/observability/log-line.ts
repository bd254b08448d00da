/** A line of the log, before it becomes text. */

import type { LogLevel } from './log-level.ts'

export interface LogLine {
  readonly level: LogLevel
  /** Such as `store.breaker`. */
  readonly event: string
  readonly fields: Readonly<Record<string, unknown>>
  /** The line for people; without it, `event` and `fields` are the line. */
  readonly text?: string
}

export type WriteLine = (line: LogLine) => void

export function line(level: LogLevel, event: string, fields: object): LogLine {
  return { level, event, fields: { ...fields } }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds control characters.
const notPlain = /[\x00-\x1f\x7f-\uffff]/g

/**
 * Escapes everything but printable ASCII in the text of a JSON object: no line breaks of Unicode,
 * control characters or changes of direction reach a terminal. A final newline stays.
 */
export function asciiJson(json: string): string {
  return json.replace(notPlain, (one) => (one === '\n' ? one : escaped(one)))
}

/** Escapes everything but printable ASCII, for lines of text. A newline is escaped as well. */
export function asciiText(text: string): string {
  return text.replace(notPlain, escaped)
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
