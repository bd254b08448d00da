import { describe, expect, test } from 'vitest'
import { cleanHead, HEADERS_MAX, type RequestHead } from './request-head.ts'
import { ReservedHeaders } from './reserved-headers.ts'

const reserved = new ReservedHeaders(['x-api-key', 'x-set-by-us'], ['x-api-key'])

const clean = (...raw: string[]) => cleanHead(['Host', 'a.example', ...raw], reserved)

/** The fields that are forwarded. */
function kept(...raw: string[]): string[] {
  return good(...raw).headers
}

function good(...raw: string[]): RequestHead {
  const head = clean(...raw)
  if ('status' in head) throw new Error(`refused: ${head.detail}`)
  return head
}

describe('cleanHead', () => {
  test('writes names in lower case, and each name once', () => {
    expect(kept('Accept', 'a', 'X-Y', '1', 'ACCEPT', 'b')).toEqual(['accept', 'a, b', 'x-y', '1'])
    expect(kept('Cookie', 'a=1', 'cookie', 'b=2')).toEqual(['cookie', 'a=1; b=2'])
  })

  test('keeps the first of what there may be one of', () => {
    expect(kept('Authorization', 'Bearer a', 'authorization', 'Bearer b')).toEqual([
      'authorization',
      'Bearer a',
    ])
  })

  test.each([
    ...['X-Forwarded-For', 'X-Forwarded-Proto', 'x-forwarded-anything', 'Forwarded', 'X-Real-IP'],
    ...['X_Forwarded_For', 'X.Forwarded.For', 'x_forwarded-FOR', 'X-Forwarded_Host', 'X_Real_IP'],
    ...['x.real.ip', 'X-Tidegate-User', 'x_tidegate_user', 'X.Tidegate.Key', 'x-tidegate-new'],
    ...['X_API_Key', 'x.api.key', 'x-api_key', 'X_Set_By_Us', 'x-set.by-us'],
    ...['X!Api!Key', 'x~forwarded~for', 'X*Set+By^Us', "x'tidegate|user", 'Content~Length'],
    ...['Transfer_Encoding', 'Content_Length', 'content.length', 'Content_Type', 'Keep-Alive'],
    ...['Proxy-Connection', 'Proxy-Authorization', 'Upgrade', 'HTTP2-Settings', 'Expect'],
  ])('does not forward %s', (name) => expect(kept(name, 'x')).toEqual([]))

  test('forwards names with underscores and dots that are not reserved', () => {
    expect(kept('my_header', '1', 'a.b', '2')).toEqual(['my_header', '1', 'a.b', '2'])
  })

  test('refuses a key that is sent twice', () => {
    expect(kept('X-Api-Key', 'a')).toEqual(['x-api-key', 'a'])
    expect(clean('X-Api-Key', 'a', 'x-api-key', 'b')).toEqual({
      status: 400,
      detail: 'a request has one x-api-key',
    })
    expect(kept('X-Set-By-Us', 'a', 'x-set-by-us', 'b')).toEqual(['x-set-by-us', 'a, b'])
  })

  test('keeps what proxies said apart, to be believed of some', () => {
    const head = good('X-Forwarded-For', '1.1.1.1', 'x-forwarded-for', '2.2.2.2')
    expect(head.forwarded).toEqual(['x-forwarded-for', '1.1.1.1, 2.2.2.2'])
  })

  test('does not forward what Connection names', () => {
    expect(kept('Connection', 'close, X-Mine , x-other', 'X-Mine', '1', 'X-Kept', '2')).toEqual([
      'x-kept',
      '2',
    ])
    expect(kept('X-Mine', '1', 'Connection', 'x-mine')).toEqual([])
  })

  test.each([
    ...['X-Forwarded-For', 'forwarded', 'x-real-ip', 'host', 'authorization', 'cookie'],
    ...['content-length', 'transfer-encoding', 'x-api-key', 'X_Api_Key', 'x-tidegate-user'],
  ])('refuses a Connection that names %s', (name) => {
    expect(clean('Connection', `close, ${name}`)).toMatchObject({ status: 400 })
  })

  test('forwards of TE only that trailers are wanted', () => {
    expect(kept('TE', 'gzip;q=1, trailers')).toEqual(['te', 'trailers'])
    expect(kept('TE', 'gzip')).toEqual([])
  })

  test.each([
    ['a second Host', ['host', 'b.example'], 400],
    ['a second Content-Length', ['Content-Length', '1', 'content-length', '1'], 400],
    ['a Content-Length with a sign', ['Content-Length', '+1'], 400],
    ['a list as Content-Length', ['Content-Length', '1, 1'], 400],
    ['another transfer coding', ['Transfer-Encoding', 'gzip, chunked'], 501],
    ['a transfer coding that looks like chunked', ['Transfer-Encoding', 'xchunked'], 501],
    ['two transfer codings', ['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked'], 501],
  ])('refuses %s', (_name, raw, status) => {
    expect(clean(...raw)).toMatchObject({ status })
  })

  test.each(['a b', 'a/b', 'a@b', 'a:b', 'a\\b', ':80', 'a:999999', 'a?b', 'a#b', ''])(
    'refuses the Host %j',
    (host) => expect(cleanHead(['Host', host], reserved)).toMatchObject({ status: 400 }),
  )

  test.each(['a', 'a.b:80', '127.0.0.1:8080', '[::1]', '[::1]:8080', 'a_b'])(
    'takes the Host %s',
    (host) => expect(cleanHead(['Host', host], reserved)).toMatchObject({ host }),
  )

  test('refuses more fields than anybody needs with 431', () => {
    const many = Array.from({ length: HEADERS_MAX + 1 }, (_, at) => [`x-${at}`, '1']).flat()
    expect(cleanHead(many, reserved)).toMatchObject({ status: 431 })
    expect(cleanHead(many.slice(4).concat('Host', 'a'), reserved)).not.toHaveProperty('status')
  })

  test('takes __proto__ as any other name', () => {
    expect(kept('__proto__', 'x', 'constructor', 'y')).toEqual([
      '__proto__',
      'x',
      'constructor',
      'y',
    ])
  })
})
