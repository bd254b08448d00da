/** A dashboard of Grafana: its variables, its annotations and its panels in rows. */

import { selected } from '../promql.ts'
import type { Panel } from './panel.ts'

export interface Board {
  /** The name of the file, and of the address `/d/tidegate-NAME`. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly panels: readonly Panel[]
  /** Over 30 days instead of the last hour. */
  readonly from?: string
}

/** The version of the dashboard format of Grafana 10. */
const SCHEMA_VERSION = 38

const COLUMNS = 24

export function boardJson({ name, title, description, panels, from = 'now-1h' }: Board): object {
  return {
    uid: `tidegate-${name}`,
    title: `Tidegate / ${title}`,
    description,
    tags: ['tidegate'],
    schemaVersion: SCHEMA_VERSION,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from, to: 'now' },
    links: [
      {
        type: 'dashboards',
        title: 'Tidegate',
        tags: ['tidegate'],
        asDropdown: true,
        keepTime: true,
      },
      { type: 'link', title: 'Runbook', url: 'docs/runbook.md', targetBlank: true },
    ],
    templating: { list: variables() },
    annotations: { list: [policyChanges()] },
    panels: placed(panels),
  }
}

function variables(): readonly object[] {
  return [
    { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Data source' },
    labelVariable('job', 'Job', 'label_values(tidegate_build_info, job)'),
    labelVariable(
      'instance',
      'Instance',
      'label_values(tidegate_build_info{job=~"$job"}, instance)',
    ),
  ]
}

function labelVariable(name: string, label: string, query: string): object {
  return {
    name,
    label,
    type: 'query',
    datasource: { type: 'prometheus', uid: '$datasource' },
    query: { query, refId: name },
    definition: query,
    includeAll: true,
    // Targets without series of Tidegate, such as those of the prober, are shown too.
    allValue: '.+',
    multi: true,
    refresh: 2,
    sort: 1,
    current: { text: 'All', value: '$__all' },
  }
}

/** A line at the time when a policy went live. */
function policyChanges(): object {
  return {
    name: 'Policy changes',
    datasource: { type: 'prometheus', uid: '$datasource' },
    enable: true,
    iconColor: 'purple',
    expr: `${selected('tidegate_policy_loaded_timestamp_seconds')} * 1000`,
    useValueForTime: 'on',
    titleFormat: 'Policy',
    textFormat: 'A policy went live on {{instance}}',
    step: '30s',
  }
}

/** From left to right, and into the next line if there is no room. */
function placed(panels: readonly Panel[]): readonly object[] {
  let [x, y, lineHeight] = [0, 0, 0]
  return panels.map((panel, at) => {
    const { w, h } = panel.gridPos as { readonly w: number; readonly h: number }
    if (x + w > COLUMNS) {
      y += lineHeight
      x = 0
      lineHeight = 0
    }
    const gridPos = { x, y, w, h }
    x += w
    lineHeight = Math.max(lineHeight, h)
    return { id: at + 1, ...panel, gridPos }
  })
}
