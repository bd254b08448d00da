/**
 * What the store expects of every Redis client, as tests against a real server. The keys of a test
 * share a slot, so that the same tests run on a cluster. They all begin with `tg`, and the scripts
 * use no command but those that the store's own do, so that they run under its ACL rules.
 */

import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { INTEGER_REPLY_MAX, type RedisCaller, type RedisClient, redisCaller } from './client.ts'
import { isNoScript } from './redis-error.ts'

export interface RedisConnection {
  readonly client: RedisClient
  close(): void
  /** How many replicas the master of every key has. */
  readonly replicas: number
}

/** As many as the store puts into one call. */
const KEYS_MAX = 256

/** No test comes near it: the server answers as soon as the replicas have. */
const PATIENCE_MS = 10_000

/** `waits` is false for a client that cannot send WAIT on the connection of a script. */
export function redisClientContract(
  name: string,
  connect: () => Promise<RedisConnection>,
  waits = true,
): void {
  describe(name, () => {
    let connection: RedisConnection
    let caller: RedisCaller

    beforeAll(async () => {
      connection = await connect()
      caller = redisCaller(connection.client)
    })

    afterAll(() => connection?.close())

    const run = (lua: string, keys: readonly string[] = [newKey()], args: readonly string[] = []) =>
      caller.eval(lua, keys, args)

    it('rejects a digest that the server does not know with NOSCRIPT', async () => {
      const { sha1 } = newScript('return 1')
      await expect(caller.evalsha(sha1, [newKey()], [])).rejects.toSatisfy(isNoScript)
    })

    it('loads a script by running its text', async () => {
      const { text, sha1 } = newScript('return 7')
      const keys = [newKey()]
      expect(await caller.eval(text, keys, [])).toBe(7)
      expect(await caller.evalsha(sha1, keys, [])).toBe(7)
    })

    it('gives integers as numbers, exactly up to the largest that is promised', async () => {
      const large = [INTEGER_REPLY_MAX, INTEGER_REPLY_MAX - 1, 1_700_000_000_001, 0, -1]
      const lua = 'local all = {} for i, n in ipairs(ARGV) do all[i] = tonumber(n) end return all'
      expect(await run(lua, undefined, large.map(String))).toEqual(large)
    })

    it('gives nested arrays, strings and nil as they are', async () => {
      expect(await run("return { 1, { 'two', { 3 } }, {} }")).toEqual([1, ['two', [3]], []])
      expect(await run("return redis.status_reply('FINE')")).toBe('FINE')
      expect(await run('return { 1, false, 2 }')).toEqual([1, null, 2])
      expect(await run('return nil')).toBeNull()
      expect(await run("return ''")).toBe('')
    })

    it.each([
      ['spaces', 'a b  c '],
      ['quotes', `"double" 'single' \\ \`back\``],
      ['line ends', 'one\r\ntwo\n'],
      ['UTF-8', 'Grüße, 世界 🌍'],
    ])('passes keys and arguments with %s', async (_what, text) => {
      const key = `${newKey()}${text}`
      const lua =
        "redis.call('SET', KEYS[1], ARGV[1]) return { KEYS[1], redis.call('GET', KEYS[1]) }"
      expect(await run(lua, [key], [text])).toEqual([key, text])
    })

    it('passes an empty argument', async () => {
      expect(await run('return { #ARGV, ARGV[2] }', undefined, ['x', ''])).toEqual([2, ''])
    })

    it(`passes ${KEYS_MAX} keys and as many arguments in order`, async () => {
      const base = newKey()
      const keys = Array.from({ length: KEYS_MAX }, (_, index) => `${base}${index}`)
      const args = keys.map((_, index) => String(index))
      const { text, sha1 } = newScript('return { #KEYS, #ARGV, KEYS, ARGV }')
      const expected = [KEYS_MAX, KEYS_MAX, keys, args]
      expect(await caller.eval(text, keys, args)).toEqual(expected)
      expect(await caller.evalsha(sha1, keys, args)).toEqual(expected)
    })

    it('leaves the keys and the arguments that it was given unchanged', async () => {
      const keys = Object.freeze([newKey()])
      const args = Object.freeze(['1', '2'])
      expect(await run('return #ARGV', keys, args)).toBe(2)
    })

    it('answers calls of one tick to whom they belong', async () => {
      const numbers = Array.from({ length: 50 }, (_, index) => index)
      const replies = numbers.map((n) => run('return tonumber(ARGV[1])', [newKey()], [String(n)]))
      expect(await Promise.all(replies)).toEqual(numbers)
    })

    it("rejects with the message of the server's error", async () => {
      const wrong = "return redis.error_reply('MYCODE and my words')"
      await expect(run(wrong)).rejects.toThrow(/\bMYCODE:? and my words/)
      const notThere = 'return no_such_variable'
      await expect(run(notThere)).rejects.toThrow(/no_such_variable/)
    })

    it('works on after an error', async () => {
      const [failed, fine] = await Promise.allSettled([run('return x.y'), run('return 2')])
      expect(failed.status).toBe('rejected')
      expect(fine).toEqual({ status: 'fulfilled', value: 2 })
    })

    if (waits) itWaits(() => ({ caller, connection }))
  })
}

function itWaits(made: () => { caller: RedisCaller; connection: RedisConnection }): void {
  it('waits for the replicas and says how many have confirmed', async () => {
    const { caller, connection } = made()
    const { text, sha1 } = newScript("redis.call('SET', KEYS[1], '1') return { 1, 2 }")
    const keys = [newKey()]
    await caller.eval(text, keys, [])
    const { replicas } = connection
    const answer = await caller.evalshaAndWait(sha1, keys, [], replicas, PATIENCE_MS)
    expect(answer).toEqual({ reply: [1, 2], confirmed: replicas })
  })

  it('says that fewer replicas have confirmed than were asked for', async () => {
    const { caller, connection } = made()
    const { text, sha1 } = newScript("redis.call('SET', KEYS[1], '1') return 1")
    const keys = [newKey()]
    await caller.eval(text, keys, [])
    const wanted = connection.replicas + 1
    const { reply, confirmed } = await caller.evalshaAndWait(sha1, keys, [], wanted, 1)
    expect(reply).toBe(1)
    expect(confirmed).toBeLessThan(wanted)
  })

  it('rejects with NOSCRIPT also when it would wait', async () => {
    const { caller } = made()
    const { sha1 } = newScript('return 1')
    const answer = caller.evalshaAndWait(sha1, [newKey()], [], 0, 1)
    await expect(answer).rejects.toSatisfy(isNoScript)
  })
}

/** A script that no server has seen. */
export function newScript(lua: string): { readonly text: string; readonly sha1: string } {
  const text = `-- ${randomUUID()}\n${lua}`
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

/** A key that no test has used; everything appended to it stays in its slot. */
export function newKey(): string {
  return `tg:{${randomUUID()}}:`
}
