/** The contract of key-value.ts as tests, for every store. */

import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import type { Entry, KeyValueStore, Snapshot } from './key-value.ts'

/** Opens the same store again, as another client if it has several. */
export type OpenStore = () => Promise<KeyValueStore>

/** `makeStore` makes an empty store and returns the function that opens it. */
export function keyValueContract(makeStore: () => Promise<OpenStore>): void {
  async function open(): Promise<KeyValueStore> {
    const store = await (await makeStore())()
    onTestFinished(() => store.close())
    return store
  }

  test('begins empty and returns entries in the order of their keys', async () => {
    const store = await open()
    expect((await store.range('')).entries).toEqual([])
    await put(store, 'b/2', 'x')
    await put(store, 'b/10', 'ä\n"')
    await put(store, 'c', '')
    expect(keysOf(await store.range('b/'))).toEqual(['b/10', 'b/2'])
    expect(await store.range('')).toMatchObject({
      entries: [
        { key: 'b/10', value: 'ä\n"' },
        { key: 'b/2', value: 'x' },
        { key: 'c', value: '' },
      ],
    })
    expect((await store.range('b')).entries).toHaveLength(2)
    expect((await store.range('d')).entries).toEqual([])
  })

  test('returns pages in both directions', async () => {
    const store = await open()
    for (const name of ['k/1', 'k/2', 'k/3', 'k/4', 'l/1']) await put(store, name, name)
    expect(keysOf(await store.range('k/', { entriesMax: 2 }))).toEqual(['k/1', 'k/2'])
    const next = await store.range('k/', { from: 'k/3', entriesMax: 5 })
    expect(keysOf(next)).toEqual(['k/3', 'k/4'])
    const last = await store.range('k/', { isDescending: true, entriesMax: 3 })
    expect(keysOf(last)).toEqual(['k/4', 'k/3', 'k/2'])
    const before = await store.range('k/', { isDescending: true, from: 'k/2', entriesMax: 9 })
    expect(keysOf(before)).toEqual(['k/2', 'k/1'])
  })

  test('returns more entries than fit in one page of the store', async () => {
    const store = await open()
    const names = Array.from({ length: 1_250 }, (_, at) => `n/${String(at).padStart(5, '0')}`)
    for (let at = 0; at < names.length; at += 100) {
      const writes = names.slice(at, at + 100).map((key) => ({ key, value: key }))
      expect(await store.transact([], writes)).toMatchObject({ ok: true })
    }
    expect(keysOf(await store.range('n/'))).toEqual(names)
  })

  test('applies a transaction only if its conditions are met', async () => {
    const store = await open()
    const created = await store.transact([{ key: 'a', revision: 0n }], [{ key: 'a', value: '1' }])
    expect(created.ok).toBe(true)
    const again = await store.transact([{ key: 'a', revision: 0n }], [{ key: 'a', value: '2' }])
    expect(again).toMatchObject({ ok: false, current: [{ key: 'a', value: '1' }] })
    const [entry] = (await store.range('a')).entries
    expect(entry).toEqual({ key: 'a', value: '1', revision: created.revision })
    const changed = await store.transact(
      [
        { key: 'a', revision: created.revision },
        { key: 'b', revision: 0n },
      ],
      [
        { key: 'a', value: undefined },
        { key: 'b', value: '3' },
      ],
    )
    expect(changed.ok).toBe(true)
    expect(changed.revision).toBeGreaterThan(created.revision)
    expect((await store.range('')).entries).toEqual([
      { key: 'b', value: '3', revision: changed.revision },
    ])
  })

  test('admits one of many concurrent transactions with the same condition', async () => {
    const store = await open()
    const attempts = Array.from({ length: 20 }, (_, at) =>
      store.transact([{ key: 'one', revision: 0n }], [{ key: 'one', value: String(at) }]),
    )
    const results = await Promise.all(attempts)
    expect(results.filter(({ ok }) => ok)).toHaveLength(1)
  })

  test('refuses keys, values and transactions outside the bounds', async () => {
    const store = await open()
    const refused = { code: 'out-of-bounds' }
    for (const key of ['', 'a b', 'ä', 'a\n', 'k'.repeat(513)]) {
      await expect(put(store, key, 'x')).rejects.toMatchObject(refused)
    }
    await expect(put(store, 'a', 'x'.repeat(1024 ** 2 + 1))).rejects.toMatchObject(refused)
    const twice = [
      { key: 'a', value: '1' },
      { key: 'a', value: '2' },
    ]
    await expect(store.transact([], twice)).rejects.toMatchObject(refused)
    const many = Array.from({ length: 101 }, (_, at) => ({ key: `k${at}`, value: '' }))
    await expect(store.transact([], many)).rejects.toMatchObject(refused)
    expect((await store.range('')).entries).toEqual([])
    await put(store, 'large', 'ä'.repeat(512 * 1024))
    expect((await store.range('large')).entries[0]?.value).toHaveLength(512 * 1024)
  })

  test('reports the entries below a prefix, each transaction as one change', async () => {
    const store = await open()
    await put(store, 'live/a', '1')
    const seen: string[] = []
    const stop = store.follow('live/', {
      onChange: ({ entries }) => void seen.push(shown(entries)),
      onContact: () => undefined,
    })
    await until('the first report', () => seen.length === 1)
    await put(store, 'other', 'x')
    await store.transact(
      [],
      [
        { key: 'live/a', value: '2' },
        { key: 'live/b', value: '2' },
        { key: 'other', value: undefined },
      ],
    )
    await until('the change', () => seen.length === 2)
    await put(store, 'live/a', undefined)
    await until('the deletion', () => seen.length === 3)
    expect(seen).toEqual(['live/a=1', 'live/a=2 live/b=2', 'live/b=2'])
    stop()
    await put(store, 'live/c', '3')
    expect(seen).toHaveLength(3)
  })

  test('reports contact, and nothing below a prefix without entries', async () => {
    const store = await open()
    const contacts: boolean[] = []
    const seen: Snapshot[] = []
    store.follow('none/', {
      onChange: (snapshot) => void seen.push(snapshot),
      onContact: (isReachable) => void contacts.push(isReachable),
    })
    await until('the first report', () => seen.length === 1)
    expect(seen[0]?.entries).toEqual([])
    expect(contacts).toEqual([true])
  })

  test('keeps entries when it is closed, except leased ones', async () => {
    const openStore = await makeStore()
    const first = await openStore()
    await put(first, 'kept', 'x')
    await first.transact([], [{ key: 'nodes/a', value: 'y', isLeased: true }])
    expect(keysOf(await first.range(''))).toEqual(['kept', 'nodes/a'])
    await first.close()
    await expect(first.range('')).rejects.toMatchObject({ code: 'closed' })
    const second = await openStore()
    onTestFinished(() => second.close())
    await until('the lease is gone', async () => keysOf(await second.range('')).length === 1)
    const result = await second.transact(
      [{ key: 'kept', revision: 0n }],
      [{ key: 'kept', value: 'z' }],
    )
    expect(result).toMatchObject({ ok: false, current: [{ key: 'kept', value: 'x' }] })
  })
}

async function put(store: KeyValueStore, key: string, value: string | undefined): Promise<void> {
  expect(await store.transact([], [{ key, value }])).toMatchObject({ ok: true })
}

function keysOf({ entries }: Snapshot): string[] {
  return entries.map(({ key }) => key)
}

function shown(entries: readonly Entry[]): string {
  return entries.map(({ key, value }) => `${key}=${value}`).join(' ')
}
