/** The table in README.md: its comparisons, and its place in the file. */

import { ratioText, spreadText } from '../harness/figures.ts'
import { outcomeOf } from '../harness/outcome.ts'
import type { Finding } from '../harness/part.ts'
import { markdownTable } from './page.ts'

/** Names of comparisons with a short text. A comparison without a finding has no row. */
export const headlines: readonly (readonly [name: string, text: string])[] = [
  ['memory-flood-sync', 'In memory, a flood: `checkSync` against rate-limiter-flexible'],
  ['memory-admitted-async', 'In memory, none denied: `await check` against rate-limiter-flexible'],
  ['memory-log-async', 'In memory, sliding logs: `await check` against @nestjs/throttler'],
  ['redis-256-uniform', 'Redis, 10,000 keys, 256 calls in flight: against rate-limiter-flexible'],
  ['redis-8-uniform', 'Redis, 8 calls in flight: against rate-limiter-flexible'],
  ['redis-1-uniform', 'Redis, one call in flight: against rate-limiter-flexible'],
  ['cluster-256-uniform', 'Redis Cluster, 256 calls in flight: against rate-limiter-flexible'],
  ['hot-keys-one', 'One hot key in Redis, 4 processes: against rate-limiter-flexible'],
  ['middleware-express-memory', 'Express, in memory: against express-rate-limit'],
  ['middleware-express-redis', 'Express, on Redis: against express-rate-limit'],
  ['middleware-fastify-memory', 'Fastify, in memory: against @fastify/rate-limit'],
  ['gateway-express', 'The gateway, limits in Redis: against Express with a proxy and a limiter'],
  ['gateway-nginx', 'The gateway, limits in Redis: against nginx, which counts in its own memory'],
  ['rls-ratelimit-values', 'The service for Envoy, 10,000 values: against envoyproxy/ratelimit'],
  [
    'outage-killed-response-express-rate-limit',
    'Redis killed, time to an answer: against express-rate-limit',
  ],
  [
    'outage-stopped-response-rate-limiter-flexible',
    'Redis stopped, time to an answer: against rate-limiter-flexible',
  ],
  ['cost-keys-process', 'Bytes of a key in memory: against rate-limiter-flexible'],
]

/** Charts below the table. */
export const readmeCharts: readonly string[] = ['redis-in-flight', 'outage']

const block = /(<!-- bench:begin[^>]*-->\n)[\s\S]*?(<!-- bench:end -->)/

export function withReadmeTable(readme: string, findings: readonly Finding[]): string {
  if (!block.test(readme))
    throw new Error('README.md has no <!-- bench:begin --> … <!-- bench:end -->')
  const made = readmeTable(findings)
  return readme.replace(block, (_all, begin: string, end: string) => `${begin}\n${made}\n\n${end}`)
}

export function readmeTable(findings: readonly Finding[]): string {
  const rows = headlines.flatMap(([name, text]) => {
    for (const { part, comparisons } of findings) {
      const comparison = comparisons.find((each) => each.name === name)
      if (comparison === undefined) continue
      const outcome = outcomeOf(comparison)
      const ratio = `**${ratioText(outcome.ratio)}**`
      return [[text, ratio, spreadText(outcome), `\`./run.sh bench ${part}\``]]
    }
    return []
  })
  const known = findings.flatMap((finding) => finding.charts)
  const pictures = readmeCharts.flatMap((name) =>
    known
      .filter((chart) => chart.name === name)
      .map((chart) => `![${chart.title}](docs/images/bench-${name}.svg)`),
  )
  const heading = ['', 'times', 'rounds', 'measured by']
  return [markdownTable(heading, rows, [1, 2]), ...pictures].join('\n\n')
}
