/** The contract of source.ts as tests, for every source of a configuration. */

import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../test/support/servers/until.ts'
import type { ConfigSource } from './source.ts'

/** A source of texts. A text that begins with `!` is not valid. */
export interface SourceUnderTest {
  readonly source: ConfigSource<string>
  /** Replaces the text. The first one is `one`. */
  write(text: string): Promise<void>
}

export function configSourceContract(make: () => Promise<SourceUnderTest>): void {
  async function started() {
    const made = await make()
    onTestFinished(() => made.source.close())
    const seen: string[] = []
    const refused: string[] = []
    const follow = () =>
      made.source.follow({
        onChange: ({ value }) => void seen.push(value),
        onRefused: ([problem]) => void refused.push(problem?.message ?? ''),
      })
    return { ...made, seen, refused, follow }
  }

  test('reads the first version', async () => {
    const { source } = await started()
    expect(source.current).toBeUndefined()
    const read = await source.read()
    expect(read).toMatchObject({ ok: true, value: 'one', sequence: 1 })
    expect(source.current).toMatchObject({ value: 'one' })
  })

  test('reports a valid change, and each one once', async () => {
    const { source, write, seen, follow } = await started()
    await source.read()
    follow()
    await write('two')
    await until('the change', () => seen.length === 1)
    await write('three')
    await until('the next change', () => seen.length === 2)
    await source.reload()
    expect(seen).toEqual(['two', 'three'])
    expect(source.current).toMatchObject({ value: 'three', sequence: 3 })
  })

  test('reports a change between the first reading and the following', async () => {
    const { source, write, seen, follow } = await started()
    await source.read()
    await write('two')
    follow()
    await until('the change', () => seen.includes('two'))
  })

  test('refuses an invalid version once, and the version before stays', async () => {
    const { source, write, seen, refused, follow } = await started()
    await source.read()
    follow()
    await write('!bad')
    await until('the refusal', () => refused.length > 0)
    await source.reload()
    expect(refused).toEqual([expect.stringContaining('!bad')])
    expect(source.current).toMatchObject({ value: 'one' })
    await write('two')
    await until('the next version', () => seen.includes('two'))
  })

  test('reports the last of many quick changes', async () => {
    const { source, write, seen, follow } = await started()
    await source.read()
    follow()
    for (let at = 0; at < 10; at++) await write(`text ${at}`)
    await until('the last version', () => seen.at(-1) === 'text 9')
  })

  test('reports nothing after it is closed', async () => {
    const { source, write, seen, follow } = await started()
    await source.read()
    follow()
    source.close()
    await write('two')
    expect(seen).toEqual([])
  })
}
