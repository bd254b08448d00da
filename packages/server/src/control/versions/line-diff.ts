/**
 * The difference of two texts in lines, as `diff -u` prints it: the shortest edit, by the algorithm
 * of Myers. Texts that differ too much are compared by their common beginning and end alone.
 *
 * https://doi.org/10.1007/BF01840446
 */

/** Kept, deleted or added. */
export type DiffLine = readonly [' ' | '-' | '+', string]

/** Edits that are searched. The time grows with the square: this many take about 10 ms. */
const EDITS_MAX = 1_000

/** Lines around a change. */
const CONTEXT_LINES = 3

/** Returns the changed lines with the lines around them; empty if the texts are equal. */
export function lineDiff(before: string, after: string): string {
  if (before === after) return ''
  return hunksOf(diffLines(linesOf(before), linesOf(after)))
}

export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start++
  let [endBefore, endAfter] = [before.length, after.length]
  while (endBefore > start && endAfter > start && before[endBefore - 1] === after[endAfter - 1]) {
    endBefore--
    endAfter--
  }
  const kept = (lines: readonly string[]) => lines.map((line): DiffLine => [' ', line])
  return [
    ...kept(before.slice(0, start)),
    ...middleOf(before.slice(start, endBefore), after.slice(start, endAfter)),
    ...kept(before.slice(endBefore)),
  ]
}

function middleOf(before: readonly string[], after: readonly string[]): DiffLine[] {
  const steps = shortestEdit(before, after)
  if (steps !== undefined) return traced(before, after, steps)
  return [
    ...before.map((line): DiffLine => ['-', line]),
    ...after.map((line): DiffLine => ['+', line]),
  ]
}

/** Returns, for each number of edits, how far each diagonal reaches before them. */
function shortestEdit(before: readonly string[], after: readonly string[]) {
  const reached = new Map<number, number>([[1, 0]])
  const steps: ReadonlyMap<number, number>[] = []
  for (let edits = 0; edits <= Math.min(EDITS_MAX, before.length + after.length); edits++) {
    steps.push(new Map(reached))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = startOf(reached, diagonal, edits)
      while (
        x < before.length &&
        x - diagonal < after.length &&
        before[x] === after[x - diagonal]
      ) {
        x++
      }
      reached.set(diagonal, x)
      if (x >= before.length && x - diagonal >= after.length) return steps
    }
  }
  return undefined
}

function startOf(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): number {
  const down = reached.get(diagonal + 1) ?? 0
  const right = (reached.get(diagonal - 1) ?? 0) + 1
  const isDown = diagonal === -edits || (diagonal !== edits && right - 1 < down)
  return isDown ? down : right
}

/** Follows the edits back from the ends of both texts. */
function traced(
  before: readonly string[],
  after: readonly string[],
  steps: readonly ReadonlyMap<number, number>[],
): DiffLine[] {
  const lines: DiffLine[] = []
  let [x, y] = [before.length, after.length]
  for (let edits = steps.length - 1; edits >= 0; edits--) {
    const reached = steps[edits] ?? new Map()
    const diagonal = x - y
    const startX = startOf(reached, diagonal, edits)
    const startY = startX - diagonal
    while (x > startX && y > startY) {
      x--
      y--
      lines.push([' ', before[x] ?? ''])
    }
    if (edits === 0) break
    const isDown = startX === (reached.get(diagonal + 1) ?? 0) && isDownAt(reached, diagonal, edits)
    if (isDown) lines.push(['+', after[--y] ?? ''])
    else lines.push(['-', before[--x] ?? ''])
  }
  return lines.reverse()
}

function isDownAt(reached: ReadonlyMap<number, number>, diagonal: number, edits: number): boolean {
  if (diagonal === -edits) return true
  if (diagonal === edits) return false
  return (reached.get(diagonal - 1) ?? 0) < (reached.get(diagonal + 1) ?? 0)
}

/** Prints the lines near changes; `@@` stands for lines that are left out. */
function hunksOf(lines: readonly DiffLine[]): string {
  const near = lines.map((_, at) =>
    lines
      .slice(Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1)
      .some(([kind]) => kind !== ' '),
  )
  let text = ''
  let [lineBefore, lineAfter] = [1, 1]
  for (const [at, [kind, line]] of lines.entries()) {
    if (near[at] && !near[at - 1]) text += `@@ -${lineBefore} +${lineAfter} @@\n`
    if (near[at]) text += `${kind}${line}\n`
    if (kind !== '+') lineBefore++
    if (kind !== '-') lineAfter++
  }
  return text
}

function linesOf(text: string): string[] {
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}
