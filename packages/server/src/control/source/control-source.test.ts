import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isEtcdMissing, startEtcd } from '../../../../../test/support/servers/etcd/etcd.ts'
import { until } from '../../../../../test/support/servers/until.ts'
import { useServer } from '../../../../../test/support/use-server.ts'
import { configSourceContract } from '../../config/config-source-contract.ts'
import type { LoadedFiles } from '../../config/file-source.ts'
import { EtcdKeyValue } from '../etcd/etcd-key-value.ts'
import type { KeyValueStore } from '../key-value.ts'
import { openLocalKeyValue } from '../local-key-value.ts'
import { Versions } from '../versions/versions.ts'
import { ControlSource, type ControlSourceOptions } from './control-source.ts'
import type { RemoteDocument } from './document-follower.ts'

const change = { by: 'ada', why: 'a test', program: 'test' }

/** Twice the time that a source with a state file waits for a store that is silent. */
const LONGER_THAN_WAIT_MS = 400

describe('over the store of one node', () => {
  configSourceContract(async () => made(await openLocalKeyValue()))
})

// Needs etcd, which run.sh installs.
describe.skipIf(isEtcdMissing())('over etcd', () => {
  const etcd = useServer(() => startEtcd())

  const open = (prefix: string) => new EtcdKeyValue({ endpoints: etcd.endpoints, prefix })

  configSourceContract(async () => made(open(newPrefix())))

  test('goes on while etcd is away, and catches up when it is back', async () => {
    const own = await startEtcd()
    onTestFinished(() => own.stop())
    const store = new EtcdKeyValue({ endpoints: own.endpoints, prefix: newPrefix() })
    const { source, write } = await made(store)
    const seen: string[] = []
    await source.read()
    source.follow({ onChange: ({ value }) => void seen.push(value), onRefused: () => undefined })
    await own.members[0]?.restart()
    await until('it can be published again', async () => {
      await write('two')
      return true
    })
    await until('it has caught up', () => seen.at(-1) === 'two')
  })

  test('starts with the last good version if etcd is away', async () => {
    const stateFile = temporary('state')
    const first = await made(open(newPrefix()), { stateFile })
    await first.source.read()
    first.source.close()
    await first.source.settle()
    const notes: string[] = []
    const away = new EtcdKeyValue({ endpoints: ['http://127.0.0.1:1'], prefix: '/t/' })
    const onContact = (_: boolean, problem?: string) => void notes.push(problem ?? '')
    // A refusal ends the wait: there is nothing to wait for.
    const canLoad = new Promise<never>(() => undefined)
    const second = sourceOf(away, { stateFile, events: { onContact }, canLoad })
    expect(await second.read()).toMatchObject({
      ok: true,
      value: 'one',
      id: expect.stringMatching(/^v1-/),
    })
    expect(notes[0]).toContain('ECONNREFUSED')
    expect(second.status()).toMatchObject({ live: 1, published: 0, isReachable: false })
  })
})

test('uses the local file alone until a version is published', async () => {
  const store = await openLocalKeyValue()
  const source = sourceOf(store)
  expect(await source.read()).toMatchObject({ ok: true, value: 'local' })
  const seen: string[] = []
  source.follow({ onChange: ({ id }) => void seen.push(id), onRefused: () => undefined })
  await new Versions(store).publish('one', change)
  await until('the version is live', () => seen.length === 1)
  expect(seen[0]).toMatch(/^v1-/)
  expect(source.status()).toMatchObject({ published: 1, live: 1, problems: [] })
})

test('gives a silent store the time that the parser takes, and starts without it', async () => {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  const stateFile = temporary('state')
  const first = await made(await openLocalKeyValue(), { stateFile })
  await first.source.read()
  first.source.close()
  await first.source.settle()
  const { port } = silent.address() as AddressInfo
  const store = new EtcdKeyValue({ endpoints: [`http://127.0.0.1:${port}`], prefix: '/t/' })
  const parser = Promise.withResolvers<void>()
  const source = sourceOf(store, { stateFile, canLoad: parser.promise })
  const started = source.read()
  const isEarly = await Promise.race([started.then(() => true), sleep(LONGER_THAN_WAIT_MS, false)])
  expect(isEarly).toBe(false)
  parser.resolve()
  expect(await started).toMatchObject({ ok: true, value: 'one' })
})

test('starts with the last good version if the published one is refused', async () => {
  const stateFile = temporary('state')
  const store = await openLocalKeyValue()
  const first = await made(store, { stateFile })
  await first.source.read()
  first.source.close()
  await first.source.settle()
  await new Versions(store).publish('!bad', change)
  const second = sourceOf(store, { stateFile })
  expect(await second.read()).toMatchObject({ ok: true, value: 'one' })
  const refused: string[] = []
  second.follow({
    onChange: () => undefined,
    onRefused: ([problem]) => void refused.push(problem?.message ?? ''),
  })
  await until('the refusal', () => refused.length === 1)
  expect(second.status()).toMatchObject({ published: 2, live: 1, problems: ['!bad'] })
})

test('keeps the version before if the process cannot use the published one', async () => {
  const stateFile = temporary('state')
  const store = await openLocalKeyValue()
  const { source, write } = await made(store, { stateFile })
  await source.read()
  source.follow({
    onChange: ({ value }) => (value === 'two' ? [{ message: 'no secret' }] : undefined),
    onRefused: () => undefined,
  })
  await write('two')
  await until('it is refused', () => source.status().problems.length === 1)
  expect(source.status()).toMatchObject({ published: 2, live: 1, problems: ['no secret'] })
  source.close()
  await source.settle()
  const away = new EtcdKeyValue({ endpoints: ['http://127.0.0.1:1'], prefix: '/t/' })
  expect(await sourceOf(away, { stateFile }).read()).toMatchObject({ ok: true, value: 'one' })
})

test('does not apply a version again that was live when the process crashed', async () => {
  const stateFile = temporary('state')
  const store = await openLocalKeyValue()
  const versions = new Versions(store)
  const first = await made(store, { stateFile })
  await first.source.read()
  await first.source.settle()
  first.source.follow({ onChange: () => undefined, onRefused: () => undefined })
  await versions.publish('crashes', change)
  await until('it is live', () => first.source.current?.value === 'crashes')
  // The process ends here: nothing is settled.
  const refused: string[] = []
  const second = sourceOf(store, { stateFile })
  expect(await second.read()).toMatchObject({ ok: true, value: 'one' })
  second.follow({
    onChange: () => undefined,
    onRefused: ([problem]) => void refused.push(problem?.message ?? ''),
  })
  await until('the refusal', () => refused.length === 1)
  expect(refused[0]).toContain('version 2 is not applied')
  await versions.publish('crashes', { ...change, why: 'it was the machine' })
  await until('another version is applied', () => second.current?.value === 'crashes')
})

test('applies the newest of the versions that come while one is loaded', async () => {
  const store = await openLocalKeyValue()
  const loading: string[] = []
  const held = Promise.withResolvers<void>()
  const { source, write } = await made(store, {
    async load(document) {
      const text = document?.text ?? 'local'
      loading.push(text)
      if (text === 'two') await held.promise
      return { ok: true, value: text, files: [], hash: text }
    },
  })
  const seen: string[] = []
  await source.read()
  source.follow({ onChange: ({ value }) => void seen.push(value), onRefused: () => undefined })
  await write('two')
  await until('the second version is loaded', () => loading.includes('two'))
  await write('three')
  await write('four')
  await until('the newest is known', () => source.status().published === 4)
  held.resolve()
  await until('the newest is live', () => seen.at(-1) === 'four')
  expect(seen).toEqual(['two', 'four'])
  // Nothing is loaded a second time.
  expect(loading).toEqual(['one', 'two', 'four'])
})

test('ends if it is closed while a version is noted', async () => {
  const stateFile = temporary('state')
  const { source, write } = await made(await openLocalKeyValue(), { stateFile })
  await source.read()
  const seen: string[] = []
  source.follow({ onChange: ({ value }) => void seen.push(value), onRefused: () => undefined })
  await write('two')
  await until('the second version is known', () => source.status().published === 2)
  source.close()
  await source.settle()
  await source.reload()
  expect(seen).toEqual([])
})

test('gives a canary to its nodes only, and until it ends', async () => {
  const store = await openLocalKeyValue()
  const { source: chosen, write } = await made(store)
  const other = sourceOf(store, { place: { node: 'other' } })
  for (const source of [chosen, other]) {
    await source.read()
    source.follow({ onChange: () => undefined, onRefused: () => undefined })
  }
  const versions = new Versions(store)
  const { version } = await versions.stage('canary', change)
  const until1 = new Date(Date.now() + 3_600_000)
  await versions.setCanary({ version, where: { nodes: ['node'] }, until: until1 }, change)
  await until('the canary is live', () => chosen.current?.value === 'canary')
  expect(other.current?.value).toBe('one')
  await versions.setCanary(undefined, change)
  await until('the canary has ended', () => chosen.current?.value === 'one')
  await write('two')
  await until('all have the next', () => chosen.current?.value === other.current?.value)
})

async function made(store: KeyValueStore, options: Partial<ControlSourceOptions<string>> = {}) {
  const versions = new Versions(store)
  await versions.publish('one', change)
  const source = sourceOf(store, options)
  const write = async (text: string) => void (await versions.publish(text, change))
  return { source, write }
}

function sourceOf(store: KeyValueStore, options: Partial<ControlSourceOptions<string>> = {}) {
  const path = temporary('local')
  writeFileSync(path, 'local')
  const source = new ControlSource<string>({
    store,
    place: { node: 'node' },
    path,
    load: async (document) => loaded(path, document),
    ...options,
  })
  onTestFinished(async () => {
    source.close()
    await store.close()
  })
  return source
}

function loaded(path: string, document: RemoteDocument | undefined): LoadedFiles<string> {
  const value = document?.text ?? 'local'
  const read = { files: [path], hash: value }
  if (!value.startsWith('!')) return { ok: true, value, ...read }
  return { ok: false, problems: [{ message: value }], ...read }
}

function temporary(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-control-'))
  // The state may still be written after `close`.
  onTestFinished(() => rmSync(folder, { recursive: true, maxRetries: 20 }))
  return join(folder, name)
}

function newPrefix(): string {
  return `/tidegate/${randomBytes(6).toString('hex')}/`
}
