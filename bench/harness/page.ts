/** docs/benchmarks.md, made from findings. */

import { aimText, figure, MISSED, ratioText, rough, spreadText } from './figures.ts'
import { alike, outcomeOf } from './outcome.ts'
import type { Comparison, Finding, Table } from './part.ts'

export function page(findings: readonly Finding[]): string {
  const sections = [
    INTRODUCTION,
    machines(findings),
    contents(findings),
    slower(findings),
    ...findings.map(section),
  ]
  return `${sections.filter((text) => text !== '').join('\n\n')}\n`
}

const INTRODUCTION = `# Benchmarks

<!-- Made by ./run.sh bench --publish from benchmarks.json; edits are lost. -->

Everything here is made from what the benchmarks have measured; nothing is typed. Run them on your
machine:

\`\`\`sh
./run.sh bench            # all of them, about twenty minutes
./run.sh bench redis      # one of them; several names are possible
./run.sh bench --quick    # the same comparisons in under two minutes, for scale only
./run.sh bench --list     # their names
\`\`\`

How it is measured:

- Tidegate and each peer do the same work on the same machine, in the same run, with the same
  server, the same client library and the same load.
- They take turns, round by round, and the order changes from round to round: whatever slows the
  machine down for a while slows all of them down. A first round warms up and is not counted.
- **The ratio is that of the medians over the rounds. Above 1 Tidegate is better**, also where
  less is better, such as for waiting times. Beside it stand the least and the greatest ratio of a
  single round: where they lie far apart, the ratio says little.
- Absolute figures only give the scale. Load, servers and limiters share the same few cores here,
  so all of them would do more on separate machines.
- An aim is what was to be reached before it was measured. Missed aims stay on this page.`

function machines(findings: readonly Finding[]): string {
  const lines = findings.map(({ machine: { cores, processor, memoryGb, system } }) => {
    return `${cores} cores of ${processor}, ${memoryGb} GB of memory, ${system}.`
  })
  const text = [...new Set(lines)].join('\n')
  return text === '' ? '' : `The machine: ${text}`
}

function contents(findings: readonly Finding[]): string {
  const items = findings.map(({ part, title }) => `- [${part}](#${part}): ${title}`)
  const slower = '- [Where Tidegate is slower](#where-tidegate-is-slower)'
  return ['The benchmarks:', '', slower, ...items].join('\n')
}

/** What is lost is not hidden among what is won. */
function slower(findings: readonly Finding[]): string {
  const title = '## Where Tidegate is slower'
  const texts = [worseTable(findings), missedList(findings)].filter((text) => text !== '')
  if (texts.length === 0) return `${title}\n\nIn no comparison of these, and no aim was missed.`
  const about =
    'Every comparison with a ratio below 1, be it speed, bytes or time, and every missed aim.'
  return [title, about, ...texts].join('\n\n')
}

function worseTable(findings: readonly Finding[]): string {
  const rows = findings.flatMap(({ part, comparisons }) =>
    comparisons
      .filter((comparison) => isWorse(comparison))
      .map((comparison) => {
        const outcome = outcomeOf(comparison)
        const { what, ours, peer, unit, aim, reason = '' } = comparison
        const row = [`[${part}](#${part})`, `${what}: ${unit}`, `${ours} against ${peer}`]
        return [...row, ratio(comparison), aimText(aim, outcome), reason]
      }),
  )
  const heading = ['part', 'what', 'who', 'ratio', 'aim', 'why']
  return rows.length === 0 ? '' : markdownTable(heading, rows, [3])
}

/** Tables have aims too: a row that says so has missed its own. */
function missedList(findings: readonly Finding[]): string {
  const items = findings.flatMap(({ part, tables }) =>
    tables.flatMap(({ title, rows }) =>
      rows
        .filter(({ cells }) => cells.includes(MISSED))
        .map(({ name }) => `- [${part}](#${part}), ${title}: ${name}`),
    ),
  )
  return items.length === 0 ? '' : `Aims that tables below have missed:\n\n${items.join('\n')}`
}

function isWorse(comparison: Comparison): boolean {
  const { isSlower, isAimMet } = outcomeOf(comparison)
  return isSlower || isAimMet === false
}

function section(finding: Finding): string {
  const { part, title, compares, comparisons, tables, charts, skipped, notes } = finding
  return [
    `## ${part}`,
    `**${title}.** ${compares} \`./run.sh bench ${part}\``,
    ...charts.map((chart) => `![${chart.title}](images/bench-${chart.name}.svg)`),
    ...alike(comparisons).map(comparisonTable),
    ...tables.map(tableText),
    notes.map((sentence) => `- ${sentence}`).join('\n'),
    skipped.length === 0 ? '' : `Left out:\n\n${skipped.map((line) => `- ${line}`).join('\n')}`,
    measured(finding),
  ]
    .filter((text) => text !== '')
    .join('\n\n')
}

function comparisonTable(comparisons: readonly Comparison[]): string {
  const [first] = comparisons
  if (first === undefined) return ''
  const hasAims = comparisons.some(({ aim }) => aim !== undefined)
  const heading = [first.unit, first.ours, first.peer, 'ratio', 'rounds']
  const rows = comparisons.map((comparison) => {
    const outcome = outcomeOf(comparison)
    const figures = [rough(outcome.ours), rough(outcome.peer)]
    const aim = hasAims ? [aimText(comparison.aim, outcome)] : []
    return [comparison.what, ...figures, ratio(comparison), spreadText(outcome), ...aim]
  })
  return markdownTable(hasAims ? [...heading, 'aim'] : heading, rows, [1, 2, 3, 4])
}

function ratio(comparison: Comparison): string {
  const outcome = outcomeOf(comparison)
  return outcome.isSlower
    ? `${ratioText(outcome.ratio)} (worse)`
    : `**${ratioText(outcome.ratio)}**`
}

function tableText({ title, columns, rows }: Table): string {
  const heading = ['', ...columns.map(({ name }) => name)]
  const body = rows.map(({ name, isOurs, cells }) => [
    isOurs ? `**${name}**` : name,
    ...columns.map(({ digits }, at) => figure(cells[at], digits)),
  ])
  const right = columns.map((_, at) => at + 1)
  return `${title}:\n\n${markdownTable(heading, body, right)}`
}

function measured({ at, seconds, isQuick, machine }: Finding): string {
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`)
  const quick = isQuick ? ' A quick run, for scale only.' : ''
  const when = `Measured ${at.slice(0, 10)} in ${seconds} s with ${versions.join(', ')}.`
  return `<sub>${when}${quick}</sub>`
}

export function markdownTable(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly number[],
): string {
  const rule = heading.map((_, at) => (right.includes(at) ? '---:' : '---'))
  return [heading, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
