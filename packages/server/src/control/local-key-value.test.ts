import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { keyValueContract } from './key-value-contract.ts'
import { openLocalKeyValue } from './local-key-value.ts'

describe('with a file', () => {
  keyValueContract(async () => {
    const file = stateFile()
    return () => openLocalKeyValue(file)
  })

  test('writes a file that only the owner can read', async () => {
    const file = stateFile()
    const store = await openLocalKeyValue(file)
    await store.transact([], [{ key: 'a', value: '1' }])
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await store.close()
  })

  test('moves a damaged file aside and begins without it', async () => {
    const file = stateFile()
    const first = await openLocalKeyValue(file)
    await first.transact([], [{ key: 'a', value: '1' }])
    await first.close()
    writeFileSync(file, readFileSync(file, 'utf8').replace('"1"', '"2"'))
    const second = await openLocalKeyValue(file)
    expect(second.problem).toContain('has a wrong checksum')
    expect((await second.range('')).entries).toEqual([])
    expect(existsSync(`${file}.damaged`)).toBe(true)
    await second.close()
  })

  test('rejects a transaction that cannot be saved', async () => {
    const store = await openLocalKeyValue(join(stateFile(), 'missing', 'state'))
    const writing = store.transact([], [{ key: 'a', value: '1' }])
    await expect(writing).rejects.toMatchObject({ code: 'unreachable' })
    await store.close()
  })
})

test('keeps entries in memory without a file', async () => {
  const store = await openLocalKeyValue()
  await store.transact([], [{ key: 'a', value: '1' }])
  expect((await store.range('')).entries).toHaveLength(1)
  expect(store).toMatchObject({ scope: 'node', description: 'this node only' })
  await store.close()
})

function stateFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-control-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return join(folder, 'state')
}
