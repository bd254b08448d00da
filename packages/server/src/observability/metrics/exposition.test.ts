import type { MetricFamily } from 'tidegate/metrics'
import { expect, test } from 'vitest'
import { formatFor, pageLines } from './exposition.ts'

const families: readonly MetricFamily[] = [
  {
    name: 'calls_total',
    type: 'counter',
    help: 'Calls \\ and\nmore.',
    samples: [{ labels: { limit: 'a"b\\c\nd' }, value: 3 }],
  },
  { name: 'empty_total', type: 'counter', help: 'None.', samples: [] },
  {
    name: 'took_seconds',
    type: 'histogram',
    help: 'Time.',
    bounds: [0.1, 1],
    samples: [{ labels: { door: 'x' }, value: 5, sum: 7.5, buckets: [2, 4] }],
  },
]

test('writes the text format of Prometheus', () => {
  expect([...pageLines(families, 'prometheus')]).toEqual([
    '# HELP calls_total Calls \\\\ and\\nmore.',
    '# TYPE calls_total counter',
    'calls_total{limit="a\\"b\\\\c\\nd"} 3',
    '# HELP took_seconds Time.',
    '# TYPE took_seconds histogram',
    'took_seconds_bucket{door="x",le="0.1"} 2',
    'took_seconds_bucket{door="x",le="1"} 4',
    'took_seconds_bucket{door="x",le="+Inf"} 5',
    'took_seconds_sum{door="x"} 7.5',
    'took_seconds_count{door="x"} 5',
  ])
})

test('writes OpenMetrics: counters without their suffix, and an end', () => {
  const lines = [...pageLines(families, 'openmetrics')]
  expect(lines.slice(1, 3)).toEqual([
    '# TYPE calls counter',
    'calls_total{limit="a\\"b\\\\c\\nd"} 3',
  ])
  expect(lines.at(-1)).toBe('# EOF')
})

test.each([
  [undefined, 'prometheus'],
  ['text/plain', 'prometheus'],
  ['application/openmetrics-text;version=1.0.0,text/plain;q=0.5', 'openmetrics'],
])('for Accept: %s the format is %s', (accept, format) => {
  expect(formatFor(accept)).toBe(format)
})
