/** Import cycles, of values and of types. */

import type { Violation } from './rule.ts'
import type { SourceFile } from './source-file.ts'

type Graph = ReadonlyMap<string, SourceFile>

const graphs = new WeakMap<readonly SourceFile[], Graph>()

/** The shortest cycle through a file. A cycle is reported at the first of its files by path. */
export function importCycle({ path }: SourceFile, all: readonly SourceFile[]): Violation[] {
  const cycle = shortestCycle(path, graphOf(all))
  if (cycle.length === 0 || cycle.some((other) => other < path)) return []
  return [{ line: 1, text: ['a cycle', ...cycle, path].join('\n    → ') }]
}

function graphOf(all: readonly SourceFile[]): Graph {
  const graph = graphs.get(all) ?? new Map(all.map((file) => [file.path, file]))
  graphs.set(all, graph)
  return graph
}

/** The files of the cycle from `start` on; empty if no import leads back to it. */
function shortestCycle(start: string, graph: Graph): string[] {
  const importers = new Map<string, string>()
  const queue = [start]
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    for (const { target } of graph.get(path)?.syntax?.imports ?? []) {
      if (target === start) return chainTo(path, importers)
      if (target === undefined || importers.has(target)) continue
      importers.set(target, path)
      queue.push(target)
    }
  }
  return []
}

function chainTo(last: string, importers: ReadonlyMap<string, string>): string[] {
  const importer = importers.get(last)
  return importer === undefined ? [last] : [...chainTo(importer, importers), last]
}
