/** The findings of one part, as text for the screen. */

import { figure, rough } from '../../tools/charts/number-text.ts'
import { aimText, ratioText, spreadText } from './figures.ts'
import { alike, outcomeOf } from './outcome.ts'
import type { Comparison, Finding, Table } from './part.ts'

export function screenText(finding: Finding): string {
  const { part, title, compares, seconds, skipped, notes, machine } = finding
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`)
  return [
    `${part}: ${title}${finding.isQuick ? ' (quick: for scale only)' : ''}`,
    ...wrapped(compares),
    '',
    ...alike(finding.comparisons).flatMap(comparisonLines),
    ...finding.tables.flatMap(tableLines),
    ...skipped.flatMap((line) => wrapped(`Skipped: ${line}`)),
    ...notes.flatMap((sentence) => wrapped(sentence)),
    ...wrapped(
      `${machine.cores} cores, ${machine.processor}, ${versions.join(', ')}; ${seconds} s in all.`,
    ),
    '',
  ].join('\n')
}

function comparisonLines(comparisons: readonly Comparison[]): string[] {
  const [first] = comparisons
  if (first === undefined) return []
  const rows = comparisons.map((comparison) => {
    const outcome = outcomeOf(comparison)
    const verdicts = [outcome.isSlower ? 'worse' : '', aimText(comparison.aim, outcome)]
    return [
      comparison.what,
      rough(outcome.ours),
      rough(outcome.peer),
      ratioText(outcome.ratio),
      spreadText(outcome),
      verdicts.filter(Boolean).join(', aim '),
    ]
  })
  const heading = [first.unit, first.ours, first.peer, 'ratio', 'rounds', 'aim']
  return [...aligned([heading, ...rows], [1, 2, 3, 4]), '']
}

function tableLines({ title, columns, rows }: Table): string[] {
  const heading = ['', ...columns.map(({ name }) => name)]
  const body = rows.map(({ name, isOurs, cells }) => [
    isOurs ? `${name} *` : name,
    ...columns.map(({ digits }, at) => figure(cells[at], digits)),
  ])
  const right = columns.map((_, at) => at + 1)
  return [title, ...aligned([heading, ...body], right), '']
}

/** Pads columns to equal width; the named columns are aligned to the right. */
function aligned(rows: readonly (readonly string[])[], right: readonly number[]): string[] {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => (row[at] ?? '').length)),
  )
  const cell = (text: string, at: number) =>
    right.includes(at) ? text.padStart(widths[at] ?? 0) : text.padEnd(widths[at] ?? 0)
  return rows.map((row) => `  ${row.map(cell).join('  ')}`.trimEnd())
}

function wrapped(text: string): string[] {
  const lines: string[] = []
  let line = ' '
  for (const word of text.split(' ')) {
    if (line.length + word.length > 98) {
      lines.push(line)
      line = ' '
    }
    line += ` ${word}`
  }
  return [...lines, line]
}
