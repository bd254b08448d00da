/** The benchmark documents match docs/benchmarks.json: no figure is typed by hand. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { COMMAND, DATA_FILE, rendered } from '../../bench/documents/publish.ts'
import { headlines, readmeCharts, withReadmeTable } from '../../bench/documents/readme-table.ts'
import { outcomeOf } from '../../bench/harness/outcome.ts'
import type { Finding } from '../../bench/harness/part.ts'
import { readText, repositoryRoot } from '../house/source-file.ts'
import { complaintsAboutXml } from './xml.ts'

const findings: Finding[] = JSON.parse(readText(`docs/${DATA_FILE}`))
const files = rendered(findings)
const comparisons = findings.flatMap((finding) => finding.comparisons)
const advice = `run: ${COMMAND}, or node bench/documents/render.ts if only the layout has changed`

describe('of docs/benchmarks.json', () => {
  test.for([...files])('docs/%s is made', ([file, text]) => {
    expect(readText(`docs/${file}`) === text, advice).toBe(true)
  })

  test('the charts are made, and no others are there', () => {
    const images = readdirSync(join(repositoryRoot, 'docs/images'))
    const there = images.filter((file) => file.startsWith('bench-')).map((file) => `images/${file}`)
    const made = [...files.keys()].filter((file) => file.endsWith('.svg'))
    expect(there.sort(), advice).toEqual(made.sort())
  })

  test('the table in README.md is made', () => {
    const readme = readText('README.md')
    expect(withReadmeTable(readme, findings) === readme, advice).toBe(true)
  })
})

describe('the findings', () => {
  test('are of full runs', () => {
    expect(findings.filter(({ isQuick }) => isQuick).map(({ part }) => part)).toEqual([])
  })

  test('have comparisons with names of their own and a ratio', () => {
    const names = comparisons.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    const ratios = comparisons.map((comparison) => outcomeOf(comparison).ratio)
    expect(ratios.filter(Number.isNaN)).toEqual([])
  })

  test('have charts that are well-formed', () => {
    const drawings = [...files].filter(([file]) => file.endsWith('.svg'))
    expect(drawings.flatMap(([, text]) => complaintsAboutXml(text))).toEqual([])
  })
})

describe('the page', () => {
  const page = files.get('benchmarks.md') ?? ''

  test('names every comparison that is lost, and every aim that is missed', () => {
    const [, section = ''] = /## Where Tidegate is slower\n([\s\S]*?)\n## /.exec(page) ?? []
    const worse = comparisons.filter((comparison) => {
      const { ratio } = outcomeOf(comparison)
      return ratio < 0.995 || ratio < (comparison.aim ?? 0)
    })
    const rows = section.match(/^\| \[/gm)?.length ?? 0
    expect(rows).toBe(worse.length)
    for (const { what } of worse) expect(section).toContain(what)
  })
})

describe('the table in README.md', () => {
  test('has comparisons and charts that exist', () => {
    const names = comparisons.map(({ name }) => name)
    expect(headlines.map(([name]) => name).filter((name) => !names.includes(name))).toEqual([])
    const charts = findings.flatMap((finding) => finding.charts.map(({ name }) => name))
    expect(readmeCharts.filter((name) => !charts.includes(name))).toEqual([])
  })
})
