import { expect, test } from 'vitest'
import type { AuditWriter } from '../audit-writer.ts'
import { openLocalKeyValue } from '../local-key-value.ts'
import { isCanaryNode, shareOf, versionKey } from './version-record.ts'
import { Versions } from './versions.ts'

const program = 'tidegate test'
const ada = { by: 'ada', why: 'a test', program }

async function made(now?: () => number) {
  const store = await openLocalKeyValue()
  return { store, versions: new Versions(store, now) }
}

test('publishes numbered versions with author, reason, parent and hash', async () => {
  const { store, versions } = await made()
  expect(await versions.current()).toBeUndefined()
  const first = await versions.publish('limits: []\n', ada)
  const second = await versions.publish('limits: [1]\n', { ...ada, by: 'bob' })
  expect(first).toMatchObject({ version: 1, parent: 0, by: 'ada', why: 'a test', program })
  expect(second).toMatchObject({ version: 2, parent: 1, hash: expect.stringMatching(/^sha256:/) })
  expect(await versions.current()).toEqual(second)
  const history = await versions.history()
  expect(history.map(({ version, isCurrent }) => [version, isCurrent])).toEqual([
    [2, true],
    [1, false],
  ])
  expect(await versions.diff(1, 2)).toBe('@@ -1 +1 @@\n-limits: []\n+limits: [1]\n')
  const { entries } = await store.range('live/')
  expect(entries).toMatchObject([{ key: 'live/current' }])
})

test('refuses a text that was made from a version that is not live', async () => {
  const { versions } = await made()
  await versions.publish('one\n', ada)
  await versions.publish('two\n', { ...ada, by: 'bob', parent: 1 })
  await expect(versions.publish('three\n', { ...ada, parent: 1 })).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('version 2 was published by bob at'),
    current: { version: 2 },
    diff: '@@ -1 +1 @@\n-two\n+three\n',
  })
  expect((await versions.current())?.version).toBe(2)
})

test('rolls back by a new version with the old text', async () => {
  const { versions } = await made()
  await versions.publish('one\n', ada)
  await versions.publish('two\n', ada)
  const third = await versions.rollback(1, { ...ada, why: 'two is wrong' })
  expect(third).toMatchObject({ version: 3, rollbackOf: 1, text: 'one\n', parent: 2 })
  await expect(versions.rollback(9, ada)).rejects.toMatchObject({ code: 'out-of-bounds' })
})

test('loses no version of publishers that race, and repeats lost races of the audit', async () => {
  const { store } = await made()
  const publishers = Array.from({ length: 4 }, () => new Versions(store))
  const audit: AuditWriter = async (kv) => {
    const { entries } = await kv.range('audit-head')
    const count = Number(entries[0]?.value ?? 0) + 1
    return {
      conditions: [{ key: 'audit-head', revision: entries[0]?.revision ?? 0n }],
      writes: [{ key: 'audit-head', value: String(count) }],
    }
  }
  const publishing = publishers.flatMap((versions, at) =>
    Array.from({ length: 10 }, (_, n) => versions.publish(`${at} ${n}`, { ...ada, audit })),
  )
  const published = await Promise.all(publishing)
  const numbers = published.map(({ version }) => version).sort((a, b) => a - b)
  expect(numbers).toEqual(Array.from({ length: 40 }, (_, at) => at + 1))
  expect((await store.range('audit-head')).entries[0]?.value).toBe('40')
})

test('keeps 200 versions, and those of 90 days', async () => {
  let nowMs = Date.parse('2026-01-01T00:00:00Z')
  const { store, versions } = await made(() => nowMs)
  for (let at = 0; at < 205; at++) await versions.publish(`text ${at}`, ada)
  expect((await store.range('versions/')).entries).toHaveLength(205)
  nowMs += 91 * 24 * 3_600_000
  await versions.publish('later', ada)
  await versions.publish('later still', ada)
  const { entries } = await store.range('versions/')
  expect(entries).toHaveLength(200)
  expect(entries[0]?.key).toBe(versionKey(8))
})

test('gives a version to a part of the nodes until a time', async () => {
  let clockMs = Date.parse('2026-01-01T00:00:00Z')
  const { versions } = await made(() => clockMs)
  await versions.publish('one\n', ada)
  const staged = await versions.stage('two\n', ada)
  expect((await versions.current())?.version).toBe(1)
  const until = new Date('2026-01-01T01:00:00Z')
  const where = { nodes: ['a'] }
  await versions.setCanary({ version: staged.version, where, until }, ada)
  const canary = await versions.canary()
  if (canary === undefined) throw new Error('there is a canary')
  const nowMs = until.getTime() - 1
  expect(isCanaryNode(canary, { node: 'a' }, nowMs)).toBe(true)
  expect(isCanaryNode(canary, { node: 'b' }, nowMs)).toBe(false)
  expect(isCanaryNode(canary, { node: 'a' }, nowMs + 1)).toBe(false)
  const byRegion = { ...canary, where: { region: 'eu' } }
  expect(isCanaryNode(byRegion, { node: 'b', region: 'eu' }, nowMs)).toBe(true)
  const share = { ...canary, where: { share: 0.25 } }
  const names = Array.from({ length: 1_000 }, (_, at) => `node-${at}`)
  const chosen = names.filter((node) => isCanaryNode(share, { node }, nowMs))
  expect(chosen).toEqual(names.filter((node) => shareOf(node) < 0.25))
  expect(chosen.length).toBeGreaterThan(200)
  expect(chosen.length).toBeLessThan(300)
  clockMs = until.getTime()
  expect(await versions.canary()).toBeUndefined()
  await expect(versions.promote(ada)).rejects.toMatchObject({
    code: 'out-of-bounds',
    message: expect.stringContaining('the canary of version 2 has ended at 2026-01-01T01:00:00'),
  })
  expect((await versions.current())?.version).toBe(1)
  clockMs -= 1
  await versions.setCanary(undefined, ada)
  expect(await versions.canary()).toBeUndefined()
  expect((await versions.publish('three\n', ada)).version).toBe(3)
})

test('promotes the version of a canary, unless another one was published since', async () => {
  const { versions } = await made()
  await versions.publish('one\n', ada)
  const begin = async (text: string) => {
    const { version } = await versions.stage(text, ada)
    const until = new Date(Date.now() + 60_000)
    await versions.setCanary({ version, where: { region: 'eu' }, until }, ada)
    return version
  }
  const second = await begin('two\n')
  expect(await versions.promote(ada)).toMatchObject({ version: second, text: 'two\n' })
  expect((await versions.current())?.version).toBe(second)
  expect(await versions.canary()).toBeUndefined()
  await expect(versions.promote(ada)).rejects.toMatchObject({ code: 'out-of-bounds' })
  const third = await begin('three\n')
  await versions.publish('four\n', ada)
  // The publication has ended the canary.
  expect(await versions.canary()).toBeUndefined()
  const until = new Date(Date.now() + 60_000)
  await versions.setCanary({ version: third, where: { nodes: ['a'] }, until }, ada)
  await expect(versions.promote(ada)).rejects.toMatchObject({
    code: 'conflict',
    current: { version: 4 },
  })
})

test('refuses a change without a reason, and a document that is too large', async () => {
  const { versions } = await made()
  const refused = { code: 'out-of-bounds' }
  await expect(versions.publish('x', { ...ada, why: '' })).rejects.toMatchObject(refused)
  await expect(versions.publish('x'.repeat(262_145), ada)).rejects.toMatchObject(refused)
})

test('refuses a version whose text was changed', async () => {
  const { store, versions } = await made()
  await versions.publish('one\n', ada)
  const [entry] = (await store.range('versions/')).entries
  const value = entry?.value.replace('one', 'two')
  await store.transact([], [{ key: versionKey(1), value }])
  await expect(versions.current()).rejects.toMatchObject({ code: 'damaged' })
})
