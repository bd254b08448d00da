/** Numbers, times and texts of clients in words. Units are part of the text. */

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' })
const day = new Intl.DateTimeFormat('en', {
  dateStyle: 'medium',
  timeStyle: 'medium',
  hourCycle: 'h23',
})

const dateOnly = new Intl.DateTimeFormat('en', { dateStyle: 'medium' })

export const UNKNOWN = '–'

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : whole.format(value)
}

export function brief(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN
  return Math.abs(value) >= 10_000 ? compact.format(value) : short.format(value)
}

/** Requests per second. */
export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : `${brief(value)}/s`
}

export function share(part: number, all: number): string {
  if (all <= 0) return UNKNOWN
  const percent = (part / all) * 100
  if (part > 0 && percent < 0.1) return '< 0.1 %'
  return `${short.format(percent)} %`
}

/** A duration in milliseconds, in the unit that people read. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return UNKNOWN
  if (ms === 0) return '0 ms'
  if (ms < 1) return `${whole.format(ms * 1_000)} µs`
  if (ms < 1_000) return `${ms < 10 ? short.format(ms) : whole.format(ms)} ms`
  if (ms < 60_000) return `${short.format(ms / 1_000)} s`
  if (ms < 3_600_000) return `${whole.format(ms / 60_000)} min`
  if (ms < 86_400_000) return `${short.format(ms / 3_600_000)} h`
  return `${short.format(ms / 86_400_000)} d`
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN
  if (value < 1_024) return `${whole.format(value)} B`
  if (value < 1_048_576) return `${whole.format(value / 1_024)} KB`
  return `${whole.format(value / 1_048_576)} MB`
}

export function time(value: number | string | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : clock.format(new Date(value))
}

/** Local time; the title of an element has it in UTC. */
export function moment(value: number | string | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : day.format(new Date(value))
}

export function date(value: string): string {
  return dateOnly.format(new Date(value))
}

export function utc(value: number | string | null | undefined): string {
  return value === null || value === undefined ? '' : new Date(value).toISOString()
}

export function ago(value: number | string | null | undefined, nowMs = Date.now()): string {
  if (value === null || value === undefined) return UNKNOWN
  const ms = nowMs - new Date(value).getTime()
  if (ms < 5_000) return 'now'
  return ms < 60_000 ? `${whole.format(ms / 1_000)} s ago` : `${duration(ms)} ago`
}

const TEXT_LENGTH_MAX = 2_000

/** Control characters and marks of direction could make a text look like another one. */
const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/gu

/** A text of a client: marks that cannot be seen are shown by their numbers. */
export function plain(text: string): string {
  const cut = text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text
  return cut.replace(unsafe, (found) => {
    if (found === '\n') return found
    return `\\u{${(found.codePointAt(0) ?? 0).toString(16)}}`
  })
}
