/** Where findings go: a folder that git ignores, or the documents. */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { chartSvg } from '../../tools/charts/chart-svg.ts'
import { inOrder } from '../harness/order.ts'
import type { Finding } from '../harness/part.ts'
import { page } from './page.ts'
import { withReadmeTable } from './readme-table.ts'

export const DATA_FILE = 'benchmarks.json'
export const PAGE_FILE = 'benchmarks.md'
export const COMMAND = './run.sh bench --publish'

/** Writes the findings of this run and returns their place. */
export function save(folder: string, findings: readonly Finding[]): string {
  write(folder, findings)
  return `Results: ${join(folder, PAGE_FILE)}, the figures in ${DATA_FILE}, charts in images`
}

/** Replaces the findings of the same parts, and writes the documents again. */
export function publish(root: string, findings: readonly Finding[]): string {
  const docs = join(root, 'docs')
  const all = merged(readFindings(join(docs, DATA_FILE)), findings)
  write(docs, all)
  const readme = join(root, 'README.md')
  writeFileSync(readme, withReadmeTable(readFileSync(readme, 'utf8'), all))
  return `Published: docs/${PAGE_FILE}, docs/${DATA_FILE}, docs/images/bench-*.svg, README.md`
}

export function readFindings(file: string): Finding[] {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []
}

export function merged(before: readonly Finding[], now: readonly Finding[]): Finding[] {
  const byPart = new Map([...before, ...now].map((finding) => [finding.part, finding]))
  return inOrder([...byPart.values()], ({ part }) => part)
}

/** The text of every file that is generated from findings, by its path in the folder. */
export function rendered(findings: readonly Finding[]): ReadonlyMap<string, string> {
  const charts = findings.flatMap((finding) => finding.charts)
  return new Map([
    [DATA_FILE, `${JSON.stringify(findings, undefined, 1)}\n`],
    [PAGE_FILE, page(findings)],
    ...charts.map((chart) => [`images/bench-${chart.name}.svg`, chartSvg(chart)] as const),
  ])
}

function write(folder: string, findings: readonly Finding[]): void {
  const images = join(folder, 'images')
  mkdirSync(images, { recursive: true })
  const files = rendered(findings)
  for (const file of readdirSync(images)) {
    const isOld = file.startsWith('bench-') && !files.has(`images/${file}`)
    if (isOld) rmSync(join(images, file))
  }
  for (const [file, text] of files) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
}
