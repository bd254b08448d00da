/**
 * Writes deploy/grafana and deploy/prometheus. Both are committed; test/house/monitoring.test.ts
 * fails if they differ. Run: node tools/monitoring/write.ts
 */

import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Board, boardJson } from './boards/board.ts'
import { gateway } from './boards/gateway.ts'
import { latency } from './boards/latency.ts'
import { limits } from './boards/limits.ts'
import { overview } from './boards/overview.ts'
import { policy } from './boards/policy.ts'
import { regions } from './boards/regions.ts'
import { saturation } from './boards/saturation.ts'
import { slo } from './boards/slo.ts'
import { store } from './boards/store.ts'
import { repositoryRoot } from './metric-list.ts'
import { ruleFiles } from './rules.ts'

export const boards: readonly Board[] = [
  overview,
  ...[latency, saturation, store, limits, policy, gateway, regions, slo],
]

/** The text of each file by its path in the repository. */
export function monitoringFiles(): ReadonlyMap<string, string> {
  return new Map([
    ...boards.map((board) => {
      const text = `${JSON.stringify(boardJson(board), null, 2)}\n`
      return [`deploy/grafana/${board.name}.json`, text] as const
    }),
    ...ruleFiles().map(([path, text]) => [`deploy/prometheus/${path}`, text] as const),
  ])
}

if (process.argv[1] === import.meta.filename) {
  for (const [path, text] of monitoringFiles()) {
    const file = join(repositoryRoot, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}
