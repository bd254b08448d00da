import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/servers/until.ts'
import { EtcdKeyValue } from '../etcd/etcd-key-value.ts'
import type { KeyValueStore } from '../key-value.ts'
import { keyValueContract } from '../key-value-contract.ts'
import { openLocalKeyValue } from '../local-key-value.ts'
import { RememberingStore } from './remembering-store.ts'

keyValueContract(async () => {
  const path = temporary()
  const file = `${path}.local`
  return async () => new RememberingStore(await openLocalKeyValue(file), path, () => undefined)
})

test('gives overrides, blocks and the switch to followers if etcd is away', async () => {
  const path = temporary()
  const first = new RememberingStore(await openLocalKeyValue(), path, () => undefined)
  const before = follow(first, 'live/')
  const keys = ['live/overrides/a/1', 'live/blocks/ip/2', 'live/switch']
  const others = ['live/current', 'live/tokens/x', 'audit/1']
  const writes = [...keys, ...others].map((key) => ({ key, value: `of ${key}` }))
  await first.transact([], writes)
  await first.transact([], [{ key: 'live/blocks/ip/3', value: 'x' }])
  await until('the block is known', () => before.at(-1)?.length === 6)
  const { revision } = await first.transact([], [{ key: 'live/blocks/ip/3', value: undefined }])
  await until('all is known', () => before.at(-1)?.length === 5)
  await first.close()
  expect(statSync(path).mode & 0o777).toBe(0o600)

  const second = new RememberingStore(away(), path, () => undefined)
  onTestFinished(() => second.close())
  const seen = follow(second, 'live/')
  await until('the remembered entries', () => seen.length === 1)
  expect(seen[0]).toEqual(keys.toSorted().map((key) => `${key}=of ${key}`))
  const blocks = follow(second, 'live/blocks/')
  await until('the remembered blocks', () => blocks.length === 1)
  expect(blocks[0]).toEqual(['live/blocks/ip/2=of live/blocks/ip/2'])
  expect(readFileSync(path, 'utf8')).toContain(`\n${revision}\n`)
  await expect(second.range('live/')).rejects.toMatchObject({ code: 'unreachable' })
})

test('does not give what it remembers after the store has answered', async () => {
  const path = temporary()
  const first = new RememberingStore(await openLocalKeyValue(), path, () => undefined)
  const before = follow(first, 'live/')
  await first.transact([], [{ key: 'live/switch', value: 'old' }])
  await until('it is known', () => before.at(-1)?.length === 1)
  await first.close()
  const second = new RememberingStore(await openLocalKeyValue(), path, () => undefined)
  onTestFinished(() => second.close())
  const seen = follow(second, 'live/')
  await second.transact([], [{ key: 'live/switch', value: 'new' }])
  await until('the new entry', () => seen.at(-1)?.[0] === 'live/switch=new')
  await second.transact([], [{ key: 'live/switch', value: undefined }])
  await until('the deletion', () => seen.at(-1)?.length === 0)
})

test('starts without a damaged file, and reports it', async () => {
  const path = temporary()
  writeFileSync(path, 'half a file')
  const problems: string[] = []
  const store = new RememberingStore(away(), path, (problem) => void problems.push(problem))
  onTestFinished(() => store.close())
  await until('the problem', () => problems.length === 1)
  expect(problems[0]).toContain('it is not used')
})

function away(): KeyValueStore {
  return new EtcdKeyValue({ endpoints: ['http://127.0.0.1:1'], prefix: '/t/' })
}

function follow(store: KeyValueStore, prefix: string): string[][] {
  const seen: string[][] = []
  store.follow(prefix, {
    onChange: ({ entries }) => void seen.push(entries.map(({ key, value }) => `${key}=${value}`)),
    onContact: () => undefined,
  })
  return seen
}

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-remembering-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return join(folder, 'live')
}
