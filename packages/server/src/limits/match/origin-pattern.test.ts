import { describe, expect, test } from 'vitest'
import { isOriginPattern, originMatcher } from './origin-pattern.ts'

describe('a pattern of origins', () => {
  test.each([
    '*',
    'https://app.example.com',
    'http://localhost:3000',
    'http://localhost:*',
    'https://*.example.com',
    'https://*.example.com:8443',
    'https://*.example.com:*',
    'http://[::1]:8080',
    'capacitor://localhost',
    'http://example.com:443',
  ])('may be %s', (text) => expect(isOriginPattern(text)).toBe(true))

  test.each([
    '',
    'null',
    'app.example.com',
    'https://',
    'https://*',
    'https://*example.com',
    'https://app.*.example.com',
    'https://app.example.com/',
    'https://app.example.com/path',
    'https://user@app.example.com',
    'https://app.example.com:443',
    'http://app.example.com:80',
    'https://app.example.com, https://b.example.com',
    'https://App.example.com',
  ])('may not be %s', (text) => expect(isOriginPattern(text)).toBe(false))
})

describe('an origin', () => {
  const fits = (pattern: string, origin: string) => originMatcher([pattern])(origin)

  test.each([
    ['https://app.example.com', 'https://app.example.com'],
    ['https://*.example.com', 'https://app.example.com'],
    ['https://*.example.com', 'https://a.b.example.com'],
    ['https://*.example.com:*', 'https://a.example.com'],
    ['https://*.example.com:*', 'https://a.example.com:8443'],
    ['http://localhost:*', 'http://localhost'],
    ['http://localhost:*', 'http://localhost:5173'],
    ['*', 'null'],
  ])('fits %s if it is %s', (pattern, origin) => expect(fits(pattern, origin)).toBe(true))

  test.each([
    ['https://app.example.com', 'http://app.example.com'],
    ['https://app.example.com', 'https://app.example.com:8443'],
    ['https://app.example.com', 'https://app.example.com.evil.org'],
    ['https://app.example.com', 'null'],
    ['https://*.example.com', 'https://example.com'],
    ['https://*.example.com', 'https://.example.com'],
    ['https://*.example.com', 'https://evilexample.com'],
    ['https://*.example.com', 'https://evil.org/.example.com'],
    ['https://*.example.com', 'https://evil.org:1.example.com'],
    ['https://*.example.com', 'https://user@a.example.com'],
    ['https://*.example.com', 'https://a.example.com:8443'],
    ['https://*.example.com', 'http://a.example.com'],
    ['http://localhost:*', 'http://localhost.evil.org:80'],
    ['http://localhost:*', 'http://localhost:80x'],
  ])('does not fit %s if it is %s', (pattern, origin) => {
    expect(fits(pattern, origin)).toBe(false)
  })

  test('fits one of several patterns', () => {
    const isAllowed = originMatcher(['https://a.example', 'https://*.b.example'])
    expect(
      ['https://a.example', 'https://x.b.example', 'https://c.example'].map(isAllowed),
    ).toEqual([true, true, false])
  })
})
