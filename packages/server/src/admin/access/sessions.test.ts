import { expect, test } from 'vitest'
import type { Caller } from './caller.ts'
import { Sessions } from './sessions.ts'

const SECRET = 'the-first-token-of-all-nodes-0123456789'
const MINUTE_MS = 60_000

const ada: Caller = { kind: 'session', id: 'abc', name: 'ada', role: 'operate' }

const pairOf = (field: string | undefined) => field?.split(';')[0] ?? ''

test('a session is valid in another process with the same secret, and in no other', () => {
  const cookie = pairOf(new Sessions(() => true, SECRET).open(ada, 0))
  expect(new Sessions(() => true, SECRET).find(cookie, 1)).toEqual(ada)
  expect(new Sessions(() => true, `${SECRET}x`).find(cookie, 1)).toBeUndefined()
  expect(new Sessions(() => true, undefined).find(cookie, 1)).toBeUndefined()
})

test('a cookie that was changed is refused', () => {
  const sessions = new Sessions(() => true, SECRET)
  const cookie = pairOf(sessions.open({ ...ada, role: 'read' }, 0))
  const [name = '', value = ''] = cookie.split(/=(.*)/)
  const [text = '', signature = ''] = value.split('.')
  const session = JSON.parse(Buffer.from(text, 'base64url').toString())
  const raised = { ...session, caller: { ...ada, role: 'admin' } }
  const forged = Buffer.from(JSON.stringify(raised)).toString('base64url')
  for (const one of [`${forged}.${signature}`, forged, `${forged}.`, `.${signature}`, '', '.']) {
    expect(sessions.find(`${name}=${one}`, 1)).toBeUndefined()
  }
  expect(sessions.find(cookie, 1)?.role).toBe('read')
})

test('ends after 30 minutes without a renewal, and after 8 hours with them', () => {
  const sessions = new Sessions(() => true, SECRET)
  let cookie = pairOf(sessions.open(ada, 0))
  expect(sessions.find(cookie, 31 * MINUTE_MS)).toBeUndefined()
  expect(sessions.renewal(cookie, 1_000)).toBeUndefined()
  let nowMs = 0
  while (sessions.isOpen(cookie, nowMs) && nowMs < 1_000 * MINUTE_MS) {
    cookie = pairOf(sessions.renewal(cookie, nowMs)) || cookie
    nowMs += 20 * MINUTE_MS
  }
  expect(nowMs).toBe(480 * MINUTE_MS)
})

test('ends with its token, and with a log-out', async () => {
  let isAllowed = true
  const sessions = new Sessions(() => isAllowed, SECRET)
  const cookie = pairOf(sessions.open(ada, Date.now()))
  isAllowed = false
  expect(sessions.isOpen(cookie, Date.now())).toBe(false)
  isAllowed = true
  expect(await sessions.close(cookie)).toContain('Max-Age=0')
  expect(sessions.isOpen(cookie, Date.now())).toBe(false)
})
