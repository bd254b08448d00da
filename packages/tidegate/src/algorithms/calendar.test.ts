import { describe, expect, it } from 'vitest'
import { type CalendarUnit, calendarWindow } from './calendar.ts'

/** unit, zone, now → start, end */
const rows: Array<[CalendarUnit, string, string, string, string]> = [
  ['day', 'UTC', '2026-11-15T12:34:56Z', '2026-11-15T00:00:00Z', '2026-11-16T00:00:00Z'],
  ['day', 'UTC', '2026-11-15T00:00:00Z', '2026-11-15T00:00:00Z', '2026-11-16T00:00:00Z'],
  ['week', 'UTC', '2026-11-15T12:00:00Z', '2026-11-09T00:00:00Z', '2026-11-16T00:00:00Z'],
  ['week', 'UTC', '2026-11-16T00:00:00Z', '2026-11-16T00:00:00Z', '2026-11-23T00:00:00Z'],
  ['month', 'UTC', '2026-02-28T12:00:00Z', '2026-02-01T00:00:00Z', '2026-03-01T00:00:00Z'],
  ['month', 'UTC', '2026-12-31T23:59:59Z', '2026-12-01T00:00:00Z', '2027-01-01T00:00:00Z'],
  ['day', 'Asia/Tokyo', '2026-11-15T15:00:00Z', '2026-11-15T15:00:00Z', '2026-11-16T15:00:00Z'],
  ['day', 'Asia/Kathmandu', '2026-06-01T00:00:00Z', '2026-05-31T18:15:00Z', '2026-06-01T18:15:00Z'],
  [
    'day',
    'Pacific/Kiritimati',
    '2026-06-01T09:59:59Z',
    '2026-05-31T10:00:00Z',
    '2026-06-01T10:00:00Z',
  ],
  [
    'day',
    'Pacific/Pago_Pago',
    '2026-06-01T10:59:59Z',
    '2026-05-31T11:00:00Z',
    '2026-06-01T11:00:00Z',
  ],
  // 23 hours: summer time begins.
  ['day', 'Europe/Berlin', '2026-03-29T12:00:00Z', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
  // 25 hours: it ends.
  ['day', 'Europe/Berlin', '2026-10-25T12:00:00Z', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
  // The day begins at 01:00, because midnight is skipped.
  ['day', 'Africa/Cairo', '2026-04-24T12:00:00Z', '2026-04-23T22:00:00Z', '2026-04-24T21:00:00Z'],
  // The 30th never was: the 29th ends where the 31st begins.
  ['day', 'Pacific/Apia', '2011-12-30T09:00:00Z', '2011-12-29T10:00:00Z', '2011-12-30T10:00:00Z'],
  [
    'week',
    'America/New_York',
    '2026-11-02T04:59:59Z',
    '2026-10-26T04:00:00Z',
    '2026-11-02T05:00:00Z',
  ],
]

describe('calendar windows', () => {
  it.each(rows)('%s in %s at %s', (unit, timeZone, now, start, end) => {
    const window = calendarWindow(Date.parse(now), { unit, timeZone })
    const texts = [window.startMs, window.endMs].map((ms) => new Date(ms).toISOString())
    expect(texts).toEqual([start, end].map((text) => text.replace('Z', '.000Z')))
  })
})
