/**
 * Calendar days, weeks (from Monday) and months in a time zone, as windows of real time: a day is
 * 23 or 25 hours long when the clocks change. Found with the platform's time zone data.
 */

export const calendarUnits = ['day', 'week', 'month'] as const

export type CalendarUnit = (typeof calendarUnits)[number]

export interface Calendar {
  readonly unit: CalendarUnit
  readonly timeZone: string
}

interface CalendarWindow {
  readonly startMs: number
  readonly endMs: number
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/**
 * Local midnight is at most this far from midnight UTC of the same date (zones span -12 to +14).
 */
const OFFSET_MS_MAX = 15 * HOUR_MS

export function calendarWindow(now: number, calendar: Calendar): CalendarWindow {
  const zone = zoneOf(calendar.timeZone)
  const known = zone.windows[calendar.unit]
  if (known !== undefined && known.startMs <= now && now < known.endMs) return known
  const [firstDay, nextDay] = datesOf(calendar.unit, zone.dateAt(now))
  const window = { startMs: firstInstant(firstDay, zone), endMs: firstInstant(nextDay, zone) }
  zone.windows[calendar.unit] = window
  return window
}

/** The first date of the unit that holds `date`, and of the next; dates are midnights in UTC. */
function datesOf(unit: CalendarUnit, date: number): [number, number] {
  if (unit === 'day') return [date, date + DAY_MS]
  const day = new Date(date)
  if (unit === 'week') {
    const monday = date - ((day.getUTCDay() + 6) % 7) * DAY_MS
    return [monday, monday + 7 * DAY_MS]
  }
  const [year, month] = [day.getUTCFullYear(), day.getUTCMonth()]
  return [Date.UTC(year, month, 1), Date.UTC(year, month + 1, 1)]
}

/** Searches, instead of subtracting an offset, because some days do not begin at midnight. */
function firstInstant(date: number, zone: Zone): number {
  let before = date - OFFSET_MS_MAX
  let from = date + OFFSET_MS_MAX
  while (from - before > 1) {
    const middle = Math.floor((before + from) / 2)
    if (zone.dateAt(middle) >= date) from = middle
    else before = middle
  }
  return from
}

interface Zone {
  /** The local date at an instant, as midnight in UTC of that date. */
  dateAt(instant: number): number
  /** The window last asked for of each unit: nearly every call is for the same one. */
  readonly windows: Partial<Record<CalendarUnit, CalendarWindow>>
}

/** There are about 600 zone names, aliases included; names are validated before they get here. */
const zones = new Map<string, Zone>()

function zoneOf(timeZone: string): Zone {
  let zone = zones.get(timeZone)
  if (zone === undefined) {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'iso8601',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
    })
    zone = { dateAt: (instant) => dateFrom(format.formatToParts(instant)), windows: {} }
    zones.set(timeZone, zone)
  }
  return zone
}

function dateFrom(parts: Intl.DateTimeFormatPart[]): number {
  const numberOf = (type: string) => Number(parts.find((part) => part.type === type)?.value)
  return Date.UTC(numberOf('year'), numberOf('month') - 1, numberOf('day'))
}
