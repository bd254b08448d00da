/**
 * The list of metrics: the tables of docs/metrics.md, which test/e2e/metrics compares with the
 * code. Dashboards and rules can use no other name.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface MetricInfo {
  readonly name: string
  readonly type: string
  readonly labels: readonly string[]
  readonly help: string
}

export const repositoryRoot = join(import.meta.dirname, '../..')

/** Name, type, labels and meaning. */
const tableRow = new RegExp(
  '^\\| `(?<name>(?:tidegate|process|nodejs)_\\w+)` \\| (?<type>\\w+) ' +
    '\\| (?<labels>[^|]*) \\| (?<help>.*) \\|$',
  'gm',
)

/** Metrics of a service and of the prober; those of the library have their own names. */
export const metrics: ReadonlyMap<string, MetricInfo> = new Map(
  documentedMetrics()
    .filter(({ name }) => !name.startsWith('tidegate_limiter_'))
    .map((metric) => [metric.name, metric]),
)

export function documentedMetrics(): readonly MetricInfo[] {
  const text = readFileSync(join(repositoryRoot, 'docs/metrics.md'), 'utf8')
  return [...text.matchAll(tableRow)].map(({ groups = {} }) => ({
    name: groups.name ?? '',
    type: groups.type ?? '',
    labels: Array.from((groups.labels ?? '').matchAll(/`(\w+)`/g), ([, label = '']) => label),
    help: groups.help ?? '',
  }))
}
