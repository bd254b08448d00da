/**
 * Every query of every dashboard and rule returns data on a real Prometheus that scrapes a real
 * service, or is in the list of those that cannot.
 */

import { describe, expect, onTestFinished, test } from 'vitest'
import { boards } from '../../../tools/monitoring/write.ts'
import { isEtcdMissing } from '../../support/servers/etcd/etcd.ts'
import {
  isPrometheusMissing,
  type Prometheus,
  promtool,
  startPrometheus,
} from '../../support/servers/prometheus/prometheus.ts'
import { until } from '../../support/servers/until.ts'
import { startBusyService } from './busy-service.ts'
import { quickRuleFiles, quickRules } from './quick-rules.ts'

/** Queries without data here, and where they have some. */
const empty: readonly (readonly [RegExp, string])[] = [
  [/tidegate_workers/, 'a node with --workers: alerts.soak.test.ts'],
  [/tidegate_idempotency_/, 'the load has no idempotency keys'],
  [/tidegate_spans_/, 'traces are off'],
  [/tidegate_region_/, 'several regions: test/e2e/regions'],
  [/tidegate_nodes/, 'several nodes with local shares, of which a change of number is reported'],
  [/tidegate_hot_key_reports_total/, 'a key with 10,000 calls per second'],
  [/tidegate_build_info offset/, 'a comparison with the day before: deploy/prometheus/tests'],
]

const isEmpty = (query: string) => empty.some(([pattern]) => pattern.test(query))

/** A comparison with a number; without it, an alert has data also if it does not fire. */
const threshold = / (?:>|<|==) [\d.e-]+(?![\d.e-]| \*)/g

// It needs Prometheus and etcd, which not every machine has.
describe.skipIf(isPrometheusMissing() || isEtcdMissing())('on a real Prometheus', () => {
  test('every panel and every rule has data', async () => {
    const busy = await startBusyService()
    const { host } = new URL(busy.service.adminUrl)
    const prometheus = await startPrometheus({
      jobs: { tidegate: [host], 'tidegate-probe': [busy.probeAddress] },
      rules: quickRuleFiles(),
    })
    onTestFinished(() => prometheus.stop())
    const queries = allQueries()
    for (const query of queries) await prometheus.query(query)
    let missing = queries
    await until('all queries have data', async () => {
      await busy.turn()
      missing = await withoutData(prometheus, missing)
      return missing.filter((query) => !isEmpty(query)).length === 0
    }).catch((error) => {
      throw new Error(missing.filter((query) => !isEmpty(query)).join('\n'), { cause: error })
    })
    expect(queries.length).toBeGreaterThan(120)
    // A query that has data after all does not belong into the list.
    expect(queries.filter((query) => isEmpty(query) && !missing.includes(query))).toEqual([])
    expect(await prometheus.failedRules()).toEqual([])
    const page = await busy.service.page()
    expect(await promtool(['check', 'metrics'], page)).toBe('')
  })
})

function allQueries(): readonly string[] {
  const ofPanels = boards.flatMap(({ panels }) =>
    panels.flatMap(({ targets = [] }) => (targets as { expr: string }[]).map(({ expr }) => expr)),
  )
  const ofRules = quickRules().map(({ expr, alert }) =>
    alert === undefined ? expr : expr.replaceAll(threshold, ''),
  )
  const filled = ofPanels.map((expr) =>
    expr.replaceAll(/\$(job|instance)\b/g, '.+').replaceAll('$__rate_interval', '5s'),
  )
  return [...new Set([...filled, ...ofRules])]
}

async function withoutData(prometheus: Prometheus, queries: readonly string[]) {
  const found = await Promise.all(queries.map((query) => prometheus.hasData(query)))
  return queries.filter((_, at) => found[at] !== true)
}
