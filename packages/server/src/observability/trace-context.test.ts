import { describe, expect, test } from 'vitest'
import { formatTraceparent, parseTraceparent, parseTracestate } from './trace-context.ts'

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const spanId = '00f067aa0ba902b7'

describe('traceparent', () => {
  test.each([
    ['00', '00', false],
    ['00', '01', true],
    ['00', '02', false],
    ['00', 'ff', true],
    ['cc', '01', true],
  ])('version %s with flags %s is read', (version, flags, isSampled) => {
    const found = parseTraceparent(`${version}-${traceId}-${spanId}-${flags}`)
    expect(found).toEqual({ traceId, spanId, isSampled })
  })

  test('a later version may have more fields', () => {
    const found = parseTraceparent(`01-${traceId}-${spanId}-01-what-the-future-holds`)
    expect(found).toEqual({ traceId, spanId, isSampled: true })
  })

  test.each([
    ['nothing', ''],
    ['another text', 'hello'],
    ['the version that is not allowed', `ff-${traceId}-${spanId}-01`],
    ['more fields in version 00', `00-${traceId}-${spanId}-01-more`],
    ['a later version without a separator', `01-${traceId}-${spanId}-01more`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['a span id of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['capitals', `00-${traceId.toUpperCase()}-${spanId}-01`],
    ['a short trace id', `00-${traceId.slice(1)}-${spanId}-01`],
    ['a long trace id', `00-${traceId}0-${spanId}-01`],
    ['flags of one digit', `00-${traceId}-${spanId}-1`],
    ['other digits', `00-${traceId.replace('4', 'g')}-${spanId}-01`],
    ['a space before it', ` 00-${traceId}-${spanId}-01`],
    ['a line break', `00-${traceId}-${spanId}-01\n`],
    ['two values that were joined', `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`],
    ['a later version of 1 MB', `01-${traceId}-${spanId}-01-${'x'.repeat(1_000_000)}`],
  ])('%s is not read', (_, text) => {
    expect(parseTraceparent(text)).toBeUndefined()
  })

  test('is written as version 00', () => {
    const sampled = formatTraceparent({ traceId, spanId, isSampled: true })
    expect(sampled).toBe(`00-${traceId}-${spanId}-01`)
    const other = formatTraceparent({ traceId, spanId, isSampled: false, tracestate: 'a=1' })
    expect(other).toBe(`00-${traceId}-${spanId}-00`)
  })
})

describe('tracestate', () => {
  test.each([
    ['a=1', 'a=1'],
    ['rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'],
    ['a=1 , \t b=2,,', 'a=1,b=2'],
    ['fw529a3039@dt=FfAAA;0_x', 'fw529a3039@dt=FfAAA;0_x'],
    ['0tenant@vendor=1', '0tenant@vendor=1'],
    ['a=b c', 'a=b c'],
  ])('%j becomes %j', (text, kept) => {
    expect(parseTracestate(text)).toBe(kept)
  })

  test.each([
    ['nothing', ''],
    ['only separators', ' , ,'],
    ['a key in capitals', 'A=1'],
    ['a key that begins with a digit', '1a=1'],
    ['no value', 'a='],
    ['no key', '=1'],
    ['a second sign of equality', 'a=1=2'],
    ['text that is not ASCII', 'a=é'],
    ['a line break', 'a=1\nb'],
    ['33 members', Array.from({ length: 33 }, (_, at) => `k${at}=1`).join(',')],
    ['1 MB', `a=${'x'.repeat(1_000_000)}`],
  ])('%s is dropped', (_, text) => {
    expect(parseTracestate(text)).toBeUndefined()
  })

  test('loses long members first if it is too long', () => {
    const long = `long=${'x'.repeat(200)}`
    const members = Array.from({ length: 20 }, (_, at) => `key-${at + 10}=${'y'.repeat(10)}`)
    expect(parseTracestate([long, ...members].join(','))).toBe(members.join(','))
  })

  test('then loses the members at its end', () => {
    const members = Array.from({ length: 10 }, (_, at) => `k${at}=${'y'.repeat(97)}`)
    expect(parseTracestate(members.join(','))).toBe(members.slice(0, 5).join(','))
  })
})
