import fc from 'fast-check'
import { expect, test } from 'vitest'
import { diffLines, lineDiff } from './line-diff.ts'

test('prints changed lines with the lines around them', () => {
  const lines = Array.from({ length: 12 }, (_, at) => `line ${at + 1}`)
  const before = `${lines.join('\n')}\n`
  const after = before.replace('line 6', 'line six').replace('line 12\n', '')
  expect(lineDiff(before, after)).toBe(`@@ -3 +3 @@
 line 3
 line 4
 line 5
-line 6
+line six
 line 7
 line 8
 line 9
 line 10
 line 11
-line 12
`)
  expect(lineDiff(before, before)).toBe('')
})

test('leads from any text to any other, with as few edits as possible', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 })
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after)
      expect(lines.filter(([kind]) => kind !== '+').map(([, line]) => line)).toEqual(before)
      expect(lines.filter(([kind]) => kind !== '-').map(([, line]) => line)).toEqual(after)
      const kept = lines.filter(([kind]) => kind === ' ').length
      expect(kept).toBe(longestCommon(before, after))
    }),
  )
})

test('compares texts without a common line', () => {
  const many = (name: string) => Array.from({ length: 3_000 }, (_, at) => `${name}${at}`)
  const lines = diffLines(many('a'), many('b'))
  expect(lines).toHaveLength(6_000)
})

function longestCommon(one: readonly string[], other: readonly string[]): number {
  const [head, ...rest] = one
  if (head === undefined) return 0
  const at = other.indexOf(head)
  const without = longestCommon(rest, other)
  if (at === -1) return without
  return Math.max(without, 1 + longestCommon(rest, other.slice(at + 1)))
}
