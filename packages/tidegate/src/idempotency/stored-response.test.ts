import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { digestOf } from './digest.ts'
import { encryptionWith } from './encryption.ts'
import { readResponse, writeResponse } from './stored-response.ts'

const key = () => randomBytes(32).toString('base64')
const response = (body: Uint8Array, headers: readonly string[] = []) => ({
  status: 201,
  headers,
  body: new Uint8Array(body),
})

describe('a stored response', () => {
  it.each([
    ['text', Buffer.from('{"a":"é\u{1f600}"}')],
    ['text with a byte order mark', Buffer.from('\ufeffa\r\n\u0000')],
    ['bytes', randomBytes(1_000)],
    ['long text', Buffer.from('the same line\n'.repeat(5_000))],
    ['long bytes', randomBytes(10_000)],
    ['nothing', Buffer.alloc(0)],
  ])('of %s is read as it was written, with and without encryption', async (_name, body) => {
    const written = response(body, ['content-type', 'text/plain', 'link', '<a>', 'link', '<b>'])
    for (const encryption of [undefined, encryptionWith(key(), 'keys')]) {
      const text = await writeResponse(written, 'record', encryption)
      expect(text.isWellFormed()).toBe(true)
      const { body: read, ...head } = Object(await readResponse(text, 'record', encryption))
      expect(head).toEqual({ status: 201, headers: written.headers })
      expect(Buffer.from(read).equals(body)).toBe(true)
    }
  })

  it('of a long text is compressed, unless the handler has compressed it', async () => {
    const body = Buffer.from('the same line\n'.repeat(5_000))
    const plain = await writeResponse(response(body), 'record', undefined)
    expect(plain.length).toBeLessThan(body.length / 10)
    const fields = ['content-encoding', 'gzip']
    const encoded = await writeResponse(response(body, fields), 'record', undefined)
    expect(encoded.length).toBeGreaterThan(body.length)
  })

  it('is unreadable with another key, under another record, and if it was changed', async () => {
    const [one, other] = [key(), key()]
    const encryption = encryptionWith(one, 'keys')
    const text = await writeResponse(response(Buffer.from('secret')), 'record', encryption)
    const unreadable = { status: 0, notKept: 'unreadable' }
    expect(await readResponse(text, 'record', encryptionWith(other, 'keys'))).toEqual(unreadable)
    expect(await readResponse(text, 'record', undefined)).toEqual(unreadable)
    expect(await readResponse(text, 'other', encryption)).toEqual(unreadable)
    const changed = `${text.slice(0, 40)}${text[40] === 'A' ? 'B' : 'A'}${text.slice(41)}`
    expect(await readResponse(changed, 'record', encryption)).toEqual(unreadable)
    const rotated = encryptionWith([other, one], 'keys')
    expect(await readResponse(text, 'record', rotated)).toMatchObject({ status: 201 })
  })

  it('refuses keys of another length without repeating them', () => {
    expect(() => encryptionWith('c2hvcnQ=', 'keys')).toThrow(/32 bytes in base64/)
    expect(() => encryptionWith('c2hvcnQ=', 'keys')).not.toThrow(/c2hvcnQ/)
  })
})

describe('a digest', () => {
  it('differs for lists that have the same text together', async () => {
    const lists = [['ab', 'c'], ['a', 'bc'], ['abc'], ['\ud800'], ['\ud801'], ['\ufffd']]
    const digests = await Promise.all(lists.map((list) => digestOf(list)))
    expect(new Set(digests).size).toBe(lists.length)
    for (const digest of digests) expect(digest).toMatch(/^[\w-]{43}$/)
  })

  it('of bytes depends on each of them, and not on their class', async () => {
    for (const length of [1, 4_096, 4_097]) {
      const bytes = randomBytes(length)
      const digest = await digestOf(['a', bytes])
      expect(await digestOf(['a', new Uint8Array(bytes)])).toBe(digest)
      const changed = Buffer.from(bytes)
      changed[length - 1] = (changed[length - 1] ?? 0) ^ 0x80
      expect(await digestOf(['a', changed])).not.toBe(digest)
      expect(await digestOf(['a', bytes.toString('latin1')])).not.toBe(digest)
    }
  })
})
