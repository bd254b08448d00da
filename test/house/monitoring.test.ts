/** Dashboards and rules: up to date, complete, and correct for promtool. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Panel, units } from '../../tools/monitoring/boards/panel.ts'
import { metrics } from '../../tools/monitoring/metric-list.ts'
import { metricsIn } from '../../tools/monitoring/promql.ts'
import { alerts, runbookOf } from '../../tools/monitoring/rules.ts'
import { recordingRules } from '../../tools/monitoring/slos.ts'
import { boards, monitoringFiles } from '../../tools/monitoring/write.ts'
import { isPrometheusMissing, promtool } from '../support/servers/prometheus/prometheus.ts'
import { readText, repositoryRoot } from './source-file.ts'

const folder = join(repositoryRoot, 'deploy/prometheus')

const filesOf = (name: string) =>
  readdirSync(join(folder, name)).map((file) => join(folder, name, file))

interface Target {
  readonly expr: string
}

const panels = boards.flatMap(({ name, panels: own }) =>
  own
    .filter(({ type }) => type !== 'row' && type !== 'text')
    .map((panel) => ({ place: `${name}: ${panel.title}`, panel })),
)

const targetsOf = (panel: Panel) => panel.targets as readonly Target[]

describe('deploy/grafana and deploy/prometheus', () => {
  test('have the files that tools/monitoring/write.ts writes', () => {
    for (const [path, text] of monitoringFiles()) {
      expect(readText(path) === text, `run: node tools/monitoring/write.ts (${path})`).toBe(true)
    }
    const written = [...monitoringFiles().keys()].filter((path) => path.endsWith('.yaml'))
    const found = ['rules', 'tests'].flatMap((name) => filesOf(name))
    expect(found.map((path) => path.slice(repositoryRoot.length + 1)).sort()).toEqual(
      written.sort(),
    )
  })

  test('every metric is in a panel or a rule', () => {
    const queries = [
      ...panels.flatMap(({ panel }) => targetsOf(panel)),
      ...recordingRules(),
      ...alerts,
    ]
    const used = new Set(queries.flatMap(({ expr }) => metricsIn(expr)).map(({ name }) => name))
    expect([...metrics.keys()].filter((name) => !used.has(name))).toEqual([])
  })

  test('alerts lead to a dashboard, and panels to a chapter of the runbook', () => {
    const names = new Set(boards.map(({ name }) => name))
    expect(alerts.filter(({ board }) => !names.has(board))).toEqual([])
    const chapters = new Set(alerts.map(({ name }) => runbookOf(name)))
    const links = panels.flatMap(({ panel }) => (panel.links ?? []) as { url: string }[])
    expect(links.length).toBeGreaterThan(30)
    expect(links.filter(({ url }) => !chapters.has(url))).toEqual([])
  })

  test('a query with an unknown metric or label is refused', () => {
    expect(() => metricsIn('rate(tidegate_nothing_total[5m])')).toThrow(/not in docs/)
    expect(() => metricsIn('tidegate_nodes{client="x"}')).toThrow(/has no label client/)
    expect(() => metricsIn('tidegate_nodes_bucket')).toThrow(/not in docs/)
  })
})

describe('a panel', () => {
  test.for(panels)('$place has all that a reader needs', ({ panel }) => {
    expect(panel.title.length).toBeGreaterThan(3)
    expect(String(panel.description)).toMatch(/\w{3}.*\.$/)
    const { defaults } = panel.fieldConfig as { defaults: { unit?: string } }
    const axis = Reflect.get(Object(panel.options), 'yAxis') as { unit?: string } | undefined
    expect(units).toContain(defaults.unit ?? axis?.unit)
    for (const { expr } of targetsOf(panel)) {
      // A fixed window has gaps or lags behind, depending on the interval of the scrape.
      expect(expr.match(/\[(?!\$__rate_interval\])[^\]]*\]/)).toBeNull()
      expect(expr).toMatch(/job=~"\$job"/)
    }
  })

  test('has a title of its own in its dashboard', () => {
    for (const { panels: own } of boards) {
      const titles = own.map(({ title }) => title)
      expect(new Set(titles).size).toBe(titles.length)
    }
  })
})

describe('docs/runbook.md', () => {
  const runbook = readText('docs/runbook.md')

  test.for(alerts)('has a chapter about $name', ({ name }) => {
    const [, chapter = ''] = runbook.split(`\n### ${name}\n`)
    const [text = ''] = chapter.split(/\n##/)
    for (const part of ['Means', 'Users', 'Look', 'Do', 'Do not']) {
      expect(text, `${name}: ${part}`).toContain(`\n- **${part}**: `)
    }
  })

  test('has no chapter about an alert that does not exist', () => {
    const names = Array.from(runbook.matchAll(/^### (Tidegate\w+)$/gm), ([, name]) => name)
    expect(names.sort()).toEqual(alerts.map(({ name }) => name).sort())
  })
})

// It needs promtool, which not every machine has.
describe.skipIf(isPrometheusMissing())('promtool', () => {
  test('finds no fault in the rules', async () => {
    const output = await promtool(['check', 'rules', ...filesOf('rules')])
    expect(output.match(/SUCCESS/g)).toHaveLength(filesOf('rules').length)
  })

  test('every alert fires and does not fire as its tests expect', async () => {
    const output = await promtool(['test', 'rules', ...filesOf('tests')])
    expect(output.match(/SUCCESS/g)).toHaveLength(filesOf('tests').length)
  })
})
