import { describe, expect, test } from 'vitest'
import { readPolicy } from '../read-policy.ts'

const read = (text: string) => readPolicy(`${text}\nlimits: []\n`, 'tidegate.yaml')

const messages = (text: string) => {
  const result = read(text)
  return result.ok ? [] : result.problems.map(({ message }) => message)
}

describe('the section cors', () => {
  test('needs origins only', () => {
    const result = read('cors: { origins: [https://APP.example.com] }')
    expect(result.ok && result.document.cors).toEqual({
      origins: ['https://app.example.com'],
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      headers: ['*'],
      exposeHeaders: [],
      credentials: false,
      maxAge: 600_000,
    })
  })

  test('refuses every origin together with credentials', () => {
    expect(messages("cors: { origins: ['*'], credentials: true }")).toEqual([
      'tidegate.yaml:1:38 cors.credentials: true is not allowed; allowed: false with the origin ' +
        '*, because browsers refuse both together; list the origins',
    ])
  })

  test('refuses every exposed field together with credentials', () => {
    const [message] = messages(
      "cors: { origins: [https://a.example], exposeHeaders: ['*'], credentials: true }",
    )
    expect(message).toContain('cors.exposeHeaders: a list is not allowed; allowed: names without *')
  })

  test.each([
    ['https://app.example.com/', 'a trailing slash'],
    ['app.example.com', 'no scheme'],
    ['https://app.example.com:443', 'the default port'],
  ])('refuses %s, which has %s', (origin) => {
    expect(messages(`cors: { origins: ['${origin}'] }`)).toEqual([
      expect.stringContaining(`cors.origins[0]: "${origin}" is not allowed; allowed: an origin as`),
    ])
  })

  test('of a route is checked alike, and may be false', () => {
    const upstreams = 'upstreams: { api: { targets: [http://127.0.0.1:1] } }'
    const withCors = (cors: string) => `${upstreams}\nroutes: [{ upstream: api, cors: ${cors} }]`
    expect(messages(withCors('false'))).toEqual([])
    expect(messages(withCors('{ origins: [https://a.example] }'))).toEqual([])
    expect(messages(withCors("{ origins: ['*'], credentials: true }"))).toEqual([
      expect.stringContaining('routes[0].cors.credentials: true is not allowed'),
    ])
    expect(messages(withCors('{ origin: [https://a.example] }')).join()).toContain(
      'did you mean origins?',
    )
  })
})
