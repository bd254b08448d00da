import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import { configSourceContract } from './config-source-contract.ts'
import { type FileReader, FileSource } from './file-source.ts'

/** The texts of two files; a text that begins with `!` is refused. */
function twoFiles() {
  const folder = mkdtempSync(join(tmpdir(), 'tidegate-source-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const [path, other] = [join(folder, 'one'), join(folder, 'other')]
  const reader: FileReader<string> = {
    path,
    async load() {
      const value = `${readFileSync(path, 'utf8')} ${readFileSync(other, 'utf8')}`
      const read = { files: [path, other], hash: value }
      if (!value.startsWith('!')) return { ok: true, value, ...read }
      return { ok: false, problems: [{ message: value }], ...read }
    },
  }
  const source = new FileSource(reader)
  onTestFinished(() => source.close())
  const seen: string[] = []
  const listener = {
    onChange: ({ id, value }: { id: string; value: string }) => void seen.push(`${id} ${value}`),
    onRefused: ([problem]: readonly { message: string }[]) =>
      void seen.push(problem?.message ?? ''),
  }
  return { path, other, source, seen, follow: () => source.follow(listener) }
}

test('reports a change of any file between the first reading and the following', async () => {
  const { path, other, source, seen, follow } = twoFiles()
  writeFileSync(path, 'a')
  writeFileSync(other, 'b')
  expect(await source.read()).toMatchObject({ ok: true, value: 'a b', sequence: 1 })
  writeFileSync(other, 'c')
  follow()
  await until('it is reported', () => seen.length === 1)
  expect(seen).toEqual(['2-a c a c'])
})

test('follows a source whose first version is refused', async () => {
  const { path, other, source, seen, follow } = twoFiles()
  writeFileSync(path, '!')
  writeFileSync(other, 'b')
  expect(await source.read()).toEqual(expect.objectContaining({ ok: false }))
  expect(source.current).toBeUndefined()
  follow()
  writeFileSync(path, 'a')
  await until('it is reported', () => seen.length === 1)
  expect(source.current).toMatchObject({ value: 'a b', sequence: 1 })
})

describe('as a source', () => {
  configSourceContract(async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tidegate-source-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const path = join(folder, 'text')
    writeFileSync(path, 'one')
    const source = new FileSource<string>({
      path,
      async load() {
        const value = readFileSync(path, 'utf8')
        const read = { files: [path], hash: value }
        if (!value.startsWith('!')) return { ok: true, value, ...read }
        return { ok: false, problems: [{ message: value }], ...read }
      },
    })
    return { source, write: async (text) => writeFileSync(path, text) }
  })
})
