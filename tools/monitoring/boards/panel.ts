/** Panels of Grafana, with the fields that differ from its defaults. */

import { metricsIn, selected } from '../promql.ts'
import { runbookOf } from '../rules.ts'

export interface Query {
  /** Every metric gets the variables of the dashboard. */
  readonly expr: string
  readonly legend?: string
}

export interface PanelOptions {
  readonly title: string
  /** Default: the meaning of its metrics. */
  readonly description?: string
  /** https://grafana.com/docs/grafana/latest/panels-visualizations/configure-standard-options/ */
  readonly unit: Unit
  readonly queries: readonly Query[]
  /** Columns of 24. */
  readonly width?: number
  readonly height?: number
  /** The value from which it is red. */
  readonly red?: number
  /** The value below which it is red, for shares that should be high. */
  readonly redBelow?: number
  readonly max?: number
  /** The alert about it, whose chapter of the runbook is linked. */
  readonly alert?: string
}

export const units = [
  ...['reqps', 'ops', 'percentunit', 's', 'short', 'bytes', 'none', 'dateTimeAsIso'],
] as const

export type Unit = (typeof units)[number]

export type Panel = Readonly<Record<string, unknown>> & {
  readonly type: string
  readonly title: string
  readonly gridPos?: object
}

const DATASOURCE = { type: 'prometheus', uid: '$datasource' }

/** Lines over time. */
export function graph(options: PanelOptions): Panel {
  const custom = {
    fillOpacity: 8,
    showPoints: 'never',
    ...(options.red !== undefined && { thresholdsStyle: { mode: 'line' } }),
  }
  return panel('timeseries', options, {
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    fieldConfig: fieldConfig(options, { min: 0, custom }),
  })
}

/** One number, now. */
export function stat(options: PanelOptions): Panel {
  return panel('stat', options, {
    options: { colorMode: 'value', graphMode: 'area', reduceOptions: { calcs: ['lastNotNull'] } },
    fieldConfig: fieldConfig(options),
  })
}

/** Buckets over time; its query is a rate of buckets by `le`. */
export function heatmap(options: PanelOptions): Panel {
  return panel('heatmap', options, {
    options: {
      calculate: false,
      yAxis: { unit: options.unit },
      color: { scheme: 'Oranges', mode: 'scheme' },
      cellGap: 1,
    },
    fieldConfig: { defaults: {}, overrides: [] },
  })
}

/** The labels and the value of each series, now. */
export function table(options: PanelOptions): Panel {
  const own = panel('table', options, {
    options: { showHeader: true },
    fieldConfig: fieldConfig(options),
    transformations: [{ id: 'organize', options: { excludeByName: { Time: true } } }],
  })
  const targets = own.targets as readonly object[]
  return { ...own, targets: targets.map((one) => ({ ...one, format: 'table', instant: true })) }
}

export function text(title: string, content: string, height = 6): Panel {
  return {
    type: 'text',
    title,
    description: 'How to go on from here.',
    options: { mode: 'markdown', content },
    gridPos: { w: 24, h: height },
  }
}

export function row(title: string): Panel {
  return { type: 'row', title, collapsed: false, panels: [], gridPos: { w: 24, h: 1 } }
}

function panel(type: string, options: PanelOptions, more: object): Panel {
  const { title, description, queries, width = 12, height = 8, alert } = options
  return {
    type,
    title,
    description: description ?? meaningOf(queries),
    datasource: DATASOURCE,
    gridPos: { w: width, h: height },
    targets: queries.map(({ expr, legend }, at) => ({
      refId: String.fromCharCode(65 + at),
      datasource: DATASOURCE,
      expr: selected(expr),
      ...(legend !== undefined && { legendFormat: legend }),
      ...(type === 'heatmap' && { format: 'heatmap' }),
    })),
    ...(alert !== undefined && {
      links: [{ title: `Runbook: ${alert}`, url: runbookOf(alert), targetBlank: true }],
    }),
    ...more,
  }
}

function meaningOf(queries: readonly Query[]): string {
  const metrics = new Set(queries.flatMap(({ expr }) => metricsIn(expr)))
  return Array.from(metrics, ({ help }) => help).join(' ')
}

function fieldConfig({ unit, red, redBelow, max }: PanelOptions, more: object = {}): object {
  const steps =
    redBelow === undefined
      ? [
          { color: 'green', value: null },
          ...(red === undefined ? [] : [{ color: 'red', value: red }]),
        ]
      : [
          { color: 'red', value: null },
          { color: 'green', value: redBelow },
        ]
  const thresholds = { mode: 'absolute', steps }
  return {
    defaults: { unit, thresholds, ...(max !== undefined && { max }), ...more },
    overrides: [],
  }
}
