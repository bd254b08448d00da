/**
 * Writes families as a page, line by line: the text format of Prometheus, or OpenMetrics.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 * https://prometheus.io/docs/specs/om/open_metrics_spec/
 */

import type { Exemplar, MetricFamily, MetricSample } from 'tidegate/metrics'

export const expositionFormats = ['prometheus', 'openmetrics'] as const

export type ExpositionFormat = (typeof expositionFormats)[number]

export const contentTypes: Readonly<Record<ExpositionFormat, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** OpenMetrics only if the client asks for it, as Prometheus does. */
export function formatFor(accept: string | undefined): ExpositionFormat {
  return accept?.includes('application/openmetrics-text') === true ? 'openmetrics' : 'prometheus'
}

export function* pageLines(
  families: readonly MetricFamily[],
  format: ExpositionFormat,
): Generator<string> {
  for (const family of families) {
    if (family.samples.length === 0) continue
    const { name, help, type } = family
    // In OpenMetrics, the suffix of a counter belongs to its samples only.
    const isPlain = format === 'prometheus' || type !== 'counter'
    const shown = isPlain ? name : name.replace(/_total$/, '')
    yield `# HELP ${shown} ${escapedHelp(help)}`
    yield `# TYPE ${shown} ${type}`
    for (const sample of family.samples) yield* sampleLines(family, sample, format)
  }
  if (format === 'openmetrics') yield '# EOF'
}

function* sampleLines(
  { name, type, bounds = [] }: MetricFamily,
  { labels, value, sum = 0, buckets = [], exemplars = [] }: MetricSample,
  format: ExpositionFormat,
): Generator<string> {
  const text = labelText(labels)
  if (type !== 'histogram') {
    yield text === '' ? `${name} ${numberText(value)}` : `${name}{${text}} ${numberText(value)}`
    return
  }
  const before = text === '' ? '' : `${text},`
  const exemplar = (at: number) => (format === 'prometheus' ? '' : exemplarText(exemplars[at]))
  for (const [at, bound] of bounds.entries()) {
    yield `${name}_bucket{${before}le="${bound}"} ${numberText(buckets[at] ?? 0)}${exemplar(at)}`
  }
  yield `${name}_bucket{${before}le="+Inf"} ${numberText(value)}${exemplar(bounds.length)}`
  yield text === '' ? `${name}_sum ${sum}` : `${name}_sum{${text}} ${sum}`
  const count = numberText(value)
  yield text === '' ? `${name}_count ${count}` : `${name}_count{${text}} ${count}`
}

/** Only OpenMetrics has exemplars. */
function exemplarText(exemplar: Exemplar | null | undefined): string {
  if (exemplar == null) return ''
  const { traceId, value, atSeconds } = exemplar
  return ` # {trace_id="${traceId}"} ${value} ${atSeconds.toFixed(3)}`
}

function labelText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([label, value]) => `${label}="${escaped(value)}"`)
    .join(',')
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapedHelp(help: string): string {
  return help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}

function numberText(value: number): string {
  return Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : 'NaN'
}
