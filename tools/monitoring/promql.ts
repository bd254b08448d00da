/** Queries of Prometheus as text: which metrics they use, and the selection of a dashboard. */

import { type MetricInfo, metrics } from './metric-list.ts'

/** A metric of a service with its matchers; names of recording rules have colons. */
const reference = /(?<![\w:])((?:tidegate|process|nodejs)_\w+)(?![\w:])(\{[^}]*\})?/g

/** Labels that Prometheus adds to every series. */
const targetLabels = ['job', 'instance']

const selection = 'job=~"$job",instance=~"$instance"'

/** Returns the metrics of a query. Throws if one of them, or a label of it, is not in the list. */
export function metricsIn(query: string): readonly MetricInfo[] {
  return Array.from(query.matchAll(reference), ([, name = '', matchers = '']) => {
    const metric = metrics.get(name) ?? histogramOf(name)
    if (metric === undefined) throw new Error(`${name} is not in docs/metrics.md: ${query}`)
    const allowed = [...metric.labels, ...targetLabels, ...(name === metric.name ? [] : ['le'])]
    for (const [, label = ''] of matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)) {
      if (!allowed.includes(label)) throw new Error(`${name} has no label ${label}: ${query}`)
    }
    return metric
  })
}

/** Adds the variables of a dashboard to every metric of a query. */
export function selected(query: string): string {
  metricsIn(query)
  return query.replaceAll(reference, (_, name: string, matchers = '{}') => {
    const own = matchers.slice(1, -1)
    return `${name}{${selection}${own === '' ? '' : `,${own}`}}`
  })
}

function histogramOf(name: string): MetricInfo | undefined {
  const metric = metrics.get(name.replace(/_(bucket|sum|count)$/, ''))
  return metric?.type === 'histogram' ? metric : undefined
}
